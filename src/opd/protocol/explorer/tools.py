"""The explorer's commands as files: one small program under each name, which nobody inside can change."""

from pathlib import Path

from opd.protocol.sandbox.layout import interpreter
from opd.records.tasks import Tool

_CLIENT = Path(__file__).with_name("client.py")
_BESIDE = ("on-device",)  # shares the device with other training commands; no tool of its own, and no harm


def lay_out_commands(folder: Path, tools: tuple[Tool, ...]) -> None:
    """The new folder holds these commands."""
    folder.mkdir()
    folder.chmod(0o755)
    # isolated, without site: neither the folder where it is called nor an installed package decides what runs
    text = f"#!{interpreter()} -IS\n{_CLIENT.read_text(encoding='utf-8')}"
    for name in (*map(str, tools), *_BESIDE):
        command = folder / name
        command.write_text(text, encoding="utf-8")
        command.chmod(0o755)
