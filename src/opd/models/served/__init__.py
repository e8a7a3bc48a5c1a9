"""A teacher behind servers with OpenAI's `/v1/completions`: asked over HTTP, proven before it is believed."""
