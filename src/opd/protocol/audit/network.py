"""Whether a command reaches for the network, read as a shell would read it: word by word, through what starts it.

    timeout 30 /usr/bin/curl x      sh -c "curl x"      cat names | xargs wget      exec 3<>/dev/tcp/x/80
    python -c "import urllib.request; …"      echo "$(curl x)"      pip install x

What only names a program, as `grep curl src` does, reaches for nothing.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

_REACH = frozenset(
    {"curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ping", "ftp", "dig",
     "nslookup", "aria2c", "huggingface-cli"}
)  # fmt: skip
_REACH_WITH = {
    "git": {"clone", "fetch", "pull", "push", "ls-remote", "submodule"},
    "pip": {"install", "download"},
    "pip3": {"install", "download"},
    "conda": {"install"},
    "apt": {"install", "update"},
    "apt-get": {"install", "update"},
    "hf": {"download"},
}
_STARTERS = frozenset(
    {"sudo", "env", "nohup", "time", "command", "exec", "timeout", "xargs", "nice", "ionice", "stdbuf", "setsid",
     "builtin", "!", "then", "do", "else", "if", "while", "{"}
)  # fmt: skip
_WITH_VALUE = frozenset({"-n", "-u", "-I", "-s", "-k", "-P", "-L", "-d", "-g", "-C", "-c", "-S"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_OFFLINE = re.compile(r"--no-index|\s-e\s+\.|\s\.\s*$")  # an install of what is there already
_CODE = re.compile(
    r"\burllib2\b|\burllib\.request\b|\burllib\s+import\s+request|\burlopen\(|\bhttp\.client\b|\bftplib\b"
    r"|\b(?:import|from)\s+(?:[\w, ]+,\s*)?(?:requests|httpx|aiohttp|urllib3|huggingface_hub|paramiko)\b"
    r"|\bsocket\.(?:create_connection|socket|getaddrinfo|gethostbyname)\b"
    r"|\bfrom\s+socket\s+import\b|__import__\(\W*(?:requests|socket|urllib)"
)
_INNER = re.compile(r"\$\(([^()]*)\)|`([^`]*)`")
_ANSI = re.compile(r"\\(.)", re.DOTALL)
_DEVICE = re.compile(r"/dev/(?:tcp|udp)/")
_DEEPEST = 5  # commands inside commands


def reaches_network(text: str, depth: int = 0) -> bool:
    """Whether one of the programs that a command starts is there to reach it."""
    text, body = _apart(text)
    words = _words(text)
    redirected = any(_DEVICE.match(word) and set(before) <= set("<>&") for before, word in pairwise(words))
    inner = [found[1] or found[2] or "" for found in _INNER.finditer(text)]
    return (
        redirected
        or any(_runs(command, depth) or _reads(command, body, depth) for command in _commands(words))
        or (depth < _DEEPEST and any(reaches_network(one, depth + 1) for one in inner))
    )


def programs(text: str, depth: int = 0) -> Iterator[list[str]]:
    """The words of each program that a command starts, and of those that a shell in it is given to start."""
    text, body = _apart(text)
    given = [found[1] or found[2] or "" for found in _INNER.finditer(text)]
    for words in _commands(_words(text)):
        if not words:
            continue
        yield words
        name = _name(words[0])
        if name in _SHELLS:
            given += [*_after(words[1:], r"-\w*c$"), body]
        elif name == "eval":
            given.append(" ".join(words[1:]))
        elif name.startswith("python") and body:
            yield [words[0], body]
    if depth < _DEEPEST:
        for one in filter(None, given):
            yield from programs(one, depth + 1)


def _apart(text: str) -> tuple[str, str]:
    r"""A command's own line, and what is written behind it, as a shell records it: `$'python3 - <<P\nimport …'`."""
    if not (text.startswith("$'") and text.endswith("'")):
        return text, ""
    text = _ANSI.sub(lambda found: {"n": "\n", "t": "\t"}.get(found[1], found[1]), text[2:-1])
    line, _, body = text.partition("\n")
    return (line, body) if "<<" in line else (text, "")


def _reads(words: list[str], body: str, depth: int) -> bool:
    """Whether a program is given a text to run that reaches out."""
    name = _name(words[0]) if words and body else ""
    if name in _SHELLS:
        return depth < _DEEPEST and reaches_network(body, depth + 1)
    return name.startswith("python") and _CODE.search(body) is not None


def _words(text: str) -> list[str]:
    """Words and operators; of a text that no shell would take, what stands between blanks."""
    reader = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=True)
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        return text.split()


def _commands(words: list[str]) -> Iterator[list[str]]:
    """The words of each program that is started."""
    command: list[str] = []
    for word in [*words, ";"]:
        if word and set(word) <= set(";|&()"):
            yield _started(command)
            command = []
        else:
            command.append(word)


def _started(words: list[str]) -> list[str]:
    """Without the programs that only start another, their options and what is set for them."""
    at = 0
    while at < len(words) and ("=" in words[at].partition("/")[0] or _name(words[at]) in _STARTERS):
        at += 1
        while at < len(words) and re.match(r"-|\d+[smhd.\d]*$", words[at]):
            at += 2 if words[at] in _WITH_VALUE else 1
    return words[at:]


def _runs(words: list[str], depth: int) -> bool:
    if not words:
        return False
    name, arguments = _name(words[0]), words[1:]
    if name in _SHELLS or name == "eval":
        code = [" ".join(arguments)] if name == "eval" else _after(arguments, r"-\w*c$")
        return depth < _DEEPEST and any(reaches_network(one, depth + 1) for one in code)
    if name.startswith("python"):
        module = next(iter(_after(arguments, r"-m$")), "")
        if module:
            return _runs(arguments[arguments.index(module) :], depth)
        return any(_CODE.search(one) for one in _after(arguments, r"-\w*c$"))
    asked = {word for word in arguments[:4] if not word.startswith("-")}
    wanted = _REACH_WITH.get(name, set())
    return name in _REACH or (bool(wanted & asked) and not _OFFLINE.search(" ".join(words)))


def _after(arguments: list[str], option: str) -> list[str]:
    """The word behind the first such option, where there is one."""
    found = [value for one, value in pairwise(arguments) if re.match(option, one)]
    return found[:1]


def _name(word: str) -> str:
    return word.rpartition("/")[2]
