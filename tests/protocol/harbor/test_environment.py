"""The environment class: by itself on a stand-in for Harbor's base class, and under Harbor where it is installed."""

import asyncio
import importlib
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from opd.protocol.sandbox.ladder import climb
from opd.records.errors import AskedWrongly

MODULE = "opd.protocol.harbor.environment"
needs_mounts = pytest.mark.skipif(
    climb().rung.name not in {"bubblewrap", "unshare"},
    reason="needs a sandbox with mounts of its own; `opd doctor` says why not",
)


class StandIn:
    """As much of Harbor's BaseEnvironment as ours uses."""

    def __init__(
        self, environment_dir: Path, session_id: str, *, network: str = "no-network", mounts: Any = ()
    ) -> None:
        self.environment_dir = environment_dir
        self.session_id = session_id
        self.network_policy = SimpleNamespace(network_mode=SimpleNamespace(value=network))
        self.task_env_config = SimpleNamespace(workdir=None)
        self.logger = logging.getLogger("stand-in")
        self._host_mounts = list(mounts)
        self._effective_memory_mb = None
        self._effective_gpus = 0
        self._validate_definition()

    def _validate_definition(self) -> None: ...

    @property
    def _network_disabled(self) -> bool:
        return self.network_policy.network_mode.value == "no-network"

    def _merge_env(self, env: dict[str, str] | None) -> dict[str, str] | None:
        return {"EVERYWHERE": "1", **(env or {})}


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class on the stand-in."""
    base, capabilities = ModuleType("harbor.environments.base"), ModuleType("harbor.environments.capabilities")
    base.BaseEnvironment, base.ExecResult = StandIn, SimpleNamespace  # type: ignore[attr-defined]
    capabilities.EnvironmentCapabilities = SimpleNamespace  # type: ignore[attr-defined]
    capabilities.EnvironmentResourceCapabilities = SimpleNamespace  # type: ignore[attr-defined]
    for name, module in (("base", base), ("capabilities", capabilities)):
        monkeypatch.setitem(sys.modules, f"harbor.environments.{name}", module)
    for name in ("harbor", "harbor.environments"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules.pop(MODULE, None)
    yield importlib.import_module(MODULE).BubblewrapEnvironment
    sys.modules.pop(MODULE)  # so that Harbor's own class is taken again


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A task package, as small as one can be."""
    return small_task(tmp_path / "small")


def small_task(folder: Path, *, mode: str = "separate") -> Path:
    workspace = folder / "environment" / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "start.txt").write_text("start\n")
    (folder / "tests").mkdir()
    (folder / "solution").mkdir()
    (folder / "solution" / "solve.sh").write_text(
        "cat start.txt >/logs/artifacts/answer.txt; echo 42 >>/logs/artifacts/answer.txt\n"
    )
    (folder / "tests" / "test.sh").write_text(
        "grep -q start /logs/artifacts/answer.txt && grep -q 42 /logs/artifacts/answer.txt && reward=1 || reward=0\n"
        'echo "{\\"reward\\": $reward}" >/logs/verifier/reward.json\n'
    )
    (folder / "tests" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
    (folder / "instruction.md").write_text("write 42\n")
    separate = '[verifier.environment]\nnetwork_mode = "no-network"\n' if mode == "separate" else ""
    (folder / "task.toml").write_text(
        'schema_version = "1.4"\n[task]\nname = "opd/small"\n[agent]\ntimeout_sec = 60\n'
        "[verifier]\ntimeout_sec = 60\n"
        f'environment_mode = "{mode}"\n{separate}[environment]\nnetwork_mode = "no-network"\nworkdir = "/workspace"\n'
    )
    return folder


# By itself


@needs_mounts
def test_an_agents_environment_starts_from_the_workspace_and_keeps_what_is_written(kind: Any, package: Path) -> None:
    async def story() -> tuple[Any, ...]:
        environment = kind(package / "environment", "small__abc__env")
        await environment.start(force_build=False)
        first = await environment.exec(
            "cat start.txt; echo more >>start.txt; echo $EVERYWHERE$ONE >&2; exit 3", env={"ONE": "2"}
        )
        second = await environment.exec("tail -n 1 /workspace/start.txt", cwd="/")
        await environment.upload_file(package / "instruction.md", "/logs/agent/in.md")
        await environment.download_dir("/logs/agent", package / "out")
        root = environment._ground.root
        await environment.stop(delete=True)
        return first, second, root

    first, second, root = asyncio.run(story())
    assert (first.stdout, first.stderr, first.return_code) == ("start\n", "12\n", 3)
    assert (second.stdout, second.stderr, second.return_code) == ("more\n", None, 0)
    assert (package / "out" / "in.md").read_text() == "write 42\n"
    assert not root.exists()
    assert (package / "environment" / "workspace" / "start.txt").read_text() == "start\n"


@needs_mounts
def test_a_verifiers_environment_starts_from_the_tests_and_has_no_workspace_of_the_agent(
    kind: Any, package: Path
) -> None:
    async def story() -> Any:
        environment = kind(package / "tests", "small__abc__verifier__trial")
        await environment.start(force_build=False)
        came = await environment.exec("ls /tests; ls -A /workspace; pwd")
        await environment.stop(delete=True)
        return came

    assert asyncio.run(story()).stdout == "Dockerfile\ntest.sh\n/tests\n"


@needs_mounts
def test_a_command_over_its_time_is_an_error_and_a_cancelled_one_is_over_when_it_says_so(
    kind: Any, package: Path
) -> None:
    async def story() -> Path:
        environment = kind(package / "environment", "small__abc__env")
        await environment.start(force_build=False)
        with pytest.raises(RuntimeError, match="timed out after 1 seconds"):
            await environment.exec("setsid sleep 60 & sleep 60", timeout_sec=1)
        writing = asyncio.create_task(environment.exec("while true; do echo . >>/tmp/alive; sleep 0.02; done"))
        while not environment._ground.place("/tmp/alive").exists():
            await asyncio.sleep(0.05)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        return environment._ground.place("/tmp/alive")

    began = time.monotonic()
    alive = asyncio.run(story())
    assert time.monotonic() - began < 20
    size = alive.stat().st_size
    time.sleep(0.3)
    assert alive.stat().st_size == size > 0


def test_a_network_that_is_asked_for_is_refused(kind: Any, package: Path) -> None:
    with pytest.raises(ValueError, match="network_mode"):
        kind(package / "environment", "small__abc__env", network="public")


def test_a_task_that_needs_an_image_is_refused(kind: Any, tmp_path: Path) -> None:
    with pytest.raises(AskedWrongly, match="runs under docker"):
        kind(tmp_path, "small__abc__env")
    kind(tmp_path, "small__abc__verifier__trial")


# Under Harbor


def run_job(task: Path, jobs: Path, *, agent: str = "oracle") -> Any:
    """The result of Harbor's own job, and its trial's folder."""
    os.environ["HARBOR_TELEMETRY"] = "0"
    harbor = pytest.importorskip("harbor.job", reason="harbor (Python ≥ 3.12) isn't installed")
    config = importlib.import_module("harbor.models.job.config").JobConfig.model_validate(
        {
            "job_name": "job", "jobs_dir": str(jobs), "quiet": True, "n_concurrent_trials": 1,
            "environment": {"import_path": f"{MODULE}:BubblewrapEnvironment"},
            "agents": [{"name": agent}], "tasks": [{"path": str(task)}],
        }
    )  # fmt: skip

    async def run() -> Any:
        job = await harbor.Job.create(config)
        return await job.run()

    asyncio.run(run())
    (trial,) = [path for path in (jobs / "job").iterdir() if path.is_dir()]
    return json.loads((trial / "result.json").read_text()), trial


@needs_mounts
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mode", ["shared", "separate"])
@pytest.mark.parametrize(("agent", "reward"), [("oracle", 1), ("nop", 0)])
def test_harbor_runs_a_trial_in_it(tmp_path: Path, mode: str, agent: str, reward: int) -> None:
    result, trial = run_job(small_task(tmp_path / "small", mode=mode), tmp_path / "jobs", agent=agent)
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == {"reward": reward}
    assert result["verifier_environment_mode"] == mode
    if agent == "oracle":
        assert (trial / "artifacts" / "logs" / "artifacts" / "answer.txt").read_text() == "start\n42\n"
