"""A benchmark's file from a dataset repository on the hub: one file, at one commit.

What comes back is checked like any other file, by its digest and its rows, so the hub is a place and no authority.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from opd.records.errors import AskedWrongly
from opd.records.settings import Settings


class HubFile(Settings):
    """A file of a dataset repository."""

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    """`owner/name`."""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    """The commit, all 40 digits: a branch moves."""
    file: Annotated[str, Field(min_length=1)]
    """Its path in the repository."""


Download = Callable[[HubFile], Path]


def download(hub: HubFile) -> Path:
    """The file in the hub's local cache, fetched if it is not there yet; `AskedWrongly` when it can't be had."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(
            hf_hub_download(repo_id=hub.repository, filename=hub.file, revision=hub.revision, repo_type="dataset")
        )
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, OSError) as error:
        raise AskedWrongly(
            f"{hub.file} of {hub.repository} is not here, not in the hub's local cache, and the hub did not give it "
            f"({type(error).__name__}); fetch it where there is a network (`hf download --repo-type dataset "
            f"{hub.repository} {hub.file} --revision {hub.revision}`) and give --data"
        ) from error
