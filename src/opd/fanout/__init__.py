"""Work spread over the machines of a cluster by Ray: compared, placed, handed out, tried again. No tensors."""
