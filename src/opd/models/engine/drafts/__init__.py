"""Several tokens of a sequence in one step, while few sequences run.

    history         … 3 x + 7 = 2 and 3 x        its longest end that stood there before: "3 x"
    guessed                               + 7    what followed then

    rows of a step    newest   guess   guess
       reads          x        +       7
       draws          +        8       =         each by the uniform number of its own position
       kept           +        8                 up to the first that the next row did not read

A row draws what a step of its own would have drawn behind the same tokens, and it is kept where the tokens before it
were drawn too. So guesses decide how long it takes, and nothing else.

operations.py  the guess, and what is kept of the draws, in torch: the CPU's way, and the reference of the kernels
steps.py       windows of such steps, by graphs, by the persistent kernel, or on a CPU
hindsight.py   what guesses would have come to, and so whose the next window is
"""
