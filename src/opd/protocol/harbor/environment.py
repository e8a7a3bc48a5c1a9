"""Harbor's trials on the sandbox ladder, without a container engine.

    harbor run -p arith_tiny -e opd.protocol.harbor.environment:BubblewrapEnvironment

The agent gets the task's workspace and its fixed inputs, and no network; the verifier gets tests/ and the install
that judges. A task that needs more of its image than the host's own programs is refused. Nothing else imports this
module: it needs harbor, which needs Python 3.12.
"""

import asyncio
import tempfile
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities, EnvironmentResourceCapabilities

from opd.protocol.harbor.ground import Ground, Said, input_mounts, start_tree, task_of
from opd.protocol.sandbox.interpreter import interpreter_at
from opd.protocol.sandbox.ladder import AUTO, choose
from opd.protocol.sandbox.layout import devices
from opd.protocol.sandbox.view import Mount

_VERIFIER = "__verifier__"  # in the name of a session whose environment judges
_MEBIBYTE = 1 << 20


class BubblewrapEnvironment(BaseEnvironment):
    """One trial's environment.

    `sandbox` names a rung, `inputs` says by role where a fixed input lies, `python` which interpreter's install
    judges: without it, the one that runs Harbor.
    """

    def __init__(
        self,
        *args: Any,
        sandbox: str = AUTO,
        inputs: dict[str, str] | None = None,
        python: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._sandbox = sandbox
        self._python = None if python is None else interpreter_at(Path(python).expanduser())
        self._inputs = {role: Path(path).expanduser() for role, path in (inputs or {}).items()}
        self._ground: Ground | None = None
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        """What Harbor calls it."""
        return "opd-bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """No network at all; GPUs where the host has some."""
        return EnvironmentCapabilities(disable_internet=True, gpus=bool(devices()))

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Memory is limited; processors are not."""
        return EnvironmentResourceCapabilities(memory_limit=True)

    @property
    def judges(self) -> bool:
        """Whether it is the verifier's."""
        return _VERIFIER in f"{self.session_id}__"

    def _validate_definition(self) -> None:
        if not self._network_disabled:
            raise ValueError(
                f"{self.session_id} asks for network_mode = {self.network_policy.network_mode.value!r}, and this "
                'environment gives none; set network_mode = "no-network"'
            )
        if not self.judges:
            start_tree(self.environment_dir)

    async def start(self, force_build: bool) -> None:  # noqa: ARG002 there is nothing to build
        """The folders are laid out."""
        await asyncio.to_thread(self._lay_out)

    async def stop(self, delete: bool) -> None:
        """Everything is over; the folders are gone, where that is asked for."""
        if self._ground is not None and delete:
            await asyncio.to_thread(self._ground.remove)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """The file lies in the environment."""
        await asyncio.to_thread(self._laid_out.put, Path(source_path), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """All that is in the folder lies in the environment."""
        await asyncio.to_thread(self._laid_out.put, Path(source_dir), target_dir)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """The file lies on the host."""
        await asyncio.to_thread(self._take, source_path, Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """All that is in the folder lies on the host; links and the like are left out."""
        await asyncio.to_thread(self._take, source_dir, Path(target_dir))

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,  # noqa: ARG002 there is one
    ) -> ExecResult:
        """What a command came to; raises `RuntimeError` when its time was up. Cancelled, it ends first."""
        given_up = Event()
        running = asyncio.create_task(
            asyncio.to_thread(
                self._laid_out.run,
                command,
                folder=cwd or self.task_env_config.workdir or ("/tests" if self.judges else "/workspace"),
                environment=self._merge_env(env) or {},
                seconds=timeout_sec or None,
                stop=given_up.is_set,
            )
        )
        try:
            said: Said = await asyncio.shield(running)
        except asyncio.CancelledError:
            given_up.set()
            await running
            raise
        if said.timed_out:
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return ExecResult(stdout=said.stdout or None, stderr=said.stderr or None, return_code=said.exit_code)

    @property
    def _laid_out(self) -> Ground:
        if self._ground is None:
            raise RuntimeError(f"{self.session_id} was not started")
        return self._ground

    def _lay_out(self) -> None:
        root = Path(tempfile.mkdtemp(prefix="opd-harbor-")).resolve()
        root.chmod(0o755)
        memory = self._effective_memory_mb
        task = task_of(self.environment_dir, self.environment_dir.parent)
        fixed = input_mounts(task, self._inputs, root / "inputs") if task else ()
        ground = Ground(
            root,
            rung=choose(self._sandbox),
            mounts=(*fixed, *self._asked_for()),
            sees_install=self.judges,
            gpu=self._effective_gpus > 0,
            memory_bytes=None if memory is None else memory * _MEBIBYTE,
            processes=task.contract.needs.processes if task else None,
            python=self._python,
        )
        ground.make()
        if self.judges:
            ground.put(self.environment_dir, "/tests")
        else:
            ground.put(*start_tree(self.environment_dir))
        self._ground = ground

    def _asked_for(self) -> list[Mount]:
        binds = [mount for mount in self._host_mounts if mount["type"] == "bind"]
        return [
            Mount(
                source=Path(one["source"]),
                target=PurePosixPath(one["target"]),
                writable=not one.get("read_only", False),
            )
            for one in binds
        ]

    def _take(self, source: str, target: Path) -> None:
        for name in self._laid_out.take(source, target):
            self.logger.warning("%s/%s is no file and was not taken", source, name)
