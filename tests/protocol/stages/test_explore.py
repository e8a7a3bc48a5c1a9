"""Exploration, really run in the best sandbox of this machine, with explorers that are small scripts."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opd.protocol.supervision.processes import command_of, marked, numbers
from opd.records.attempts import Explored, Stage, Submission
from opd.records.receipts import faults
from opd.records.settings import read

CHANGES = "sed -i 's/STEPS = (9, 10, 100)/STEPS = (7, 8)/' train.py\n"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_run_sh_leaves_in_the_folder_of_checkpoints_is_no_part_of_a_submission(
    new_toy: Callable[..., Any],
) -> None:
    toy = new_toy(f"bash run.sh\ntest -d checkpoints/checkpoint-9 || exit 9\n{CHANGES}submit", explore_seconds=60)
    receipt, _ = toy.explore()
    assert receipt.outcome == Explored.SUBMITTED, toy.said
    assert read(Submission, toy.file("submission/outcome.json")).changed_paths == ("train.py",)


def test_a_submission_is_sealed_with_what_was_true_when_it_was_accepted(new_toy: Callable[..., Any]) -> None:
    toy = new_toy(f"sleep 33 & {CHANGES}submit --note 'fewer steps'; echo never", explore_seconds=60)
    receipt, facts = toy.explore()
    assert receipt.outcome == Explored.SUBMITTED
    submission = read(Submission, toy.file("submission/outcome.json"))
    assert (submission.origin, submission.explored_in, submission.note) == (
        "explorer", "explore/attempt-001", "fewer steps",
    )  # fmt: skip
    assert submission.changed_paths == ("train.py",)
    assert 40 < (submission.remaining_seconds or 0) < 60
    assert any("sleep 33" in command for command in submission.processes)
    assert any("sleep 33" in command for command in facts.left_processes)
    assert b"+STEPS = (7, 8)" in toy.file("submission/candidate.patch").read_bytes()
    assert toy.status.state == "submitted"
    assert toy.status.contradictions == ()
    assert faults(toy.file("explore/attempt-001")) == () == faults(toy.file("submission"))
    _, formal = toy.replay()
    assert [one.step for one in formal.artifacts] == [7, 8]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("no-candidate --because 'nothing beat the start'", Explored.NO_CANDIDATE),
        ("true", Explored.ENDED_EARLY),
        ("exit 3", Explored.AGENT_ERROR),
    ],
)
def test_each_way_to_end_without_a_patch_is_another_outcome(
    new_toy: Callable[..., Any], script: str, outcome: Explored
) -> None:
    toy = new_toy(f"{CHANGES}{script}", explore_seconds=60)
    receipt, _ = toy.explore()
    assert receipt.outcome == outcome
    assert toy.status.state == "ended"
    assert [due.stage for due in toy.status.due] == [Stage.AUDIT]
    assert toy.status.official is None
    assert not toy.file("submission").exists()
    recovery = toy.file("explore/attempt-001/recovery.patch")
    assert recovery.exists() is (outcome is not Explored.NO_CANDIDATE), "kept where nobody said that there is nothing"


def test_at_the_deadline_everything_ends_and_what_stood_there_is_kept_for_people_only(
    new_toy: Callable[..., Any],
) -> None:
    """faults H1, H2: an endless loop that ignores SIGTERM, with a child in a session of its own."""
    marker = f"marker-{time.time_ns()}"
    script = (
        f"{CHANGES}trap '' TERM\nsetsid python3 -c 'import time; time.sleep(600)' {marker} &\nwhile :; do :; done"
    )
    toy = new_toy(script, explore_seconds=6)
    seen: list[bool] = []

    def cancelled() -> bool:
        seen.append(any(marker in command_of(pid) for pid in numbers()))
        return False

    receipt, facts = toy.explore(cancelled=cancelled)
    assert any(seen), "the marker was alive meanwhile"
    assert not any(marker in command_of(pid) for pid in numbers())
    assert receipt.outcome == Explored.DEADLINE
    assert facts.recovery == "recovery.patch"
    assert 6 <= facts.seconds < 12
    assert [due.stage for due in toy.status.due] == [Stage.AUDIT]


def test_a_refusal_names_path_and_rule_while_the_explorer_can_still_mend_it(new_toy: Callable[..., Any]) -> None:
    script = f"""{CHANGES}
ln -s /etc/passwd link
head -c 100000 /dev/urandom > weights.safetensors
submit && exit 9
rm link weights.safetensors
submit --check || exit 8
submit
"""
    toy = new_toy(script, explore_seconds=60)
    receipt, _ = toy.explore()
    assert receipt.outcome == Explored.SUBMITTED, toy.said
    said = "\n".join(toy.said)
    assert "link: a symbolic link (rule: no links)" in said
    assert "weights.safetensors: " in said
    desk = lines(toy.file("explore/attempt-001/desk.jsonl"))
    assert [(line["command"], line["exit"]) for line in desk] == [("submit", 1), ("submit", 0), ("submit", 0)]


def test_the_explorers_own_repository_is_neither_believed_nor_run(new_toy: Callable[..., Any]) -> None:
    """faults H29, H31, H33: commits, hooks, filters and ignore rules of the workspace change nothing."""
    script = f"""{CHANGES}
test "$(git rev-list --all --count)" = 1 || exit 7
git fsck --unreachable | grep . && exit 6
git commit -qam mine
echo 'touch /workspace/hooked' > .git/hooks/post-index-change; chmod +x .git/hooks/* 2>/dev/null
git config core.fsmonitor 'touch /workspace/monitored; false'
mkdir -p .git/info; echo '*.py' > .git/info/exclude; echo '*.py filter=bad' > .git/info/attributes
git config filter.bad.clean 'sed s/STEPS/BAD/'
submit
"""
    toy = new_toy(script, explore_seconds=60)
    receipt, _ = toy.explore()
    assert receipt.outcome == Explored.SUBMITTED, toy.said
    patch = toy.file("submission/candidate.patch").read_text()
    assert "+STEPS = (7, 8)" in patch
    assert "BAD" not in patch
    workspace = toy.file("explore/attempt-001/workspace")
    assert not (workspace / "hooked").exists()
    assert not (workspace / "monitored").exists()


def test_every_command_is_recorded_where_the_explorer_can_not_take_it_back(new_toy: Callable[..., Any]) -> None:
    script = (
        "echo one\nfalse\n(echo in a subshell)\nbash -c 'echo nested; exit 4'\n: > $OPD_RECORD\nrm -f $OPD_RECORD\n"
    )
    toy = new_toy(f"{script}no-candidate --because done", explore_seconds=60)
    toy.explore()
    record = lines(toy.file("explore/attempt-001/commands.jsonl"))
    commands = [line["command"] for line in record if "command" in line]
    assert [command for command in commands if command.startswith(("echo", "false", "bash", "rm"))] == [
        "echo one", "false", "echo in a subshell", "bash -c 'echo nested; exit 4'", "echo nested",
        "rm -f $OPD_RECORD",
    ]  # fmt: skip
    after_false = record[next(n for n, line in enumerate(record) if line.get("command") == "false") + 1]
    assert after_false["last_exit"] == 1


def test_a_training_command_and_an_evaluation_exclude_each_other_and_say_who_has_the_device(
    new_toy: Callable[..., Any],
) -> None:
    script = """
on-device sleep 5 & sleep 0.5
on-device true || exit 9            # two training commands share it
fast-eval checkpoints; echo "code $?"
wait
no-candidate --because done
"""
    toy = new_toy(script, explore_seconds=60)
    toy.explore()
    assert "code 75" in toy.file("explore/attempt-001/trajectory/native.log").read_text()
    assert any("training command" in said for said in toy.said)


def test_what_is_no_checkpoint_gets_no_score_and_no_path_leads_out(new_toy: Callable[..., Any]) -> None:
    """faults H34: links, also in the middle of a path, and folders that aren't the explorer's."""
    script = """
mkdir -p $RUNS/a; ln -s /inputs/student $RUNS/link; ln -s /inputs $RUNS/middle; echo x > $RUNS/a/file
mkdir $RUNS/b; ln -s /inputs/student/config.json $RUNS/b/config.json
mkdir $RUNS/c; mkfifo $RUNS/c/model.safetensors
for place in /inputs/student $RUNS/../etc $RUNS/link $RUNS/middle/student $RUNS/nothing $RUNS/b $RUNS/c $RUNS/a; do
  timeout 60 fast-eval $place; echo "$place: $?"
done
no-candidate --because done
"""
    toy = new_toy(script, explore_seconds=120)
    toy.explore()
    codes = [
        line.rpartition(": ")[2]
        for line in toy.file("explore/attempt-001/trajectory/native.log").read_text().splitlines()
        if line.startswith(("/inputs", "/runs")) and line[-1].isdecimal()
    ]
    assert codes == ["2", "2", "1", "1", "1", "1", "1", "1"], toy.said
    sealed = sorted(path.name for path in toy.file("explore/attempt-001/proxy").iterdir())
    assert sealed == ["001", "002", "003", "004", "005", "006"]
    assert faults(toy.file("explore/attempt-001")) == ()


def test_weights_of_exploration_end_with_it_and_their_digests_stay(new_toy: Callable[..., Any]) -> None:
    script = """
mkdir $RUNS/a; cp $STUDENT_MODEL/model.safetensors $RUNS/a/; echo note > $RUNS/a/note.txt
no-candidate --because done
"""
    toy = new_toy(script, explore_seconds=60)
    toy.explore()
    listing = {line["path"]: line for line in lines(toy.file("explore/attempt-001/runs.jsonl"))}
    assert listing["a/model.safetensors"]["kept"] is False
    assert len(listing["a/model.safetensors"]["sha256"]) == 64
    assert not toy.file("explore/attempt-001/runs/a/model.safetensors").exists()
    assert toy.file("explore/attempt-001/runs/a/note.txt").read_text() == "note\n"


def test_the_explorer_sees_its_task_and_its_time_and_not_the_judge(new_toy: Callable[..., Any], sandbox: Any) -> None:
    if sandbox.rung.name not in {"bubblewrap", "unshare"}:
        pytest.skip(f"the sandbox {sandbox.rung.name} has no file tree of its own")
    script = """
head -c 300 $OPD_INSTRUCTION; echo
timer; timer --json; cat $(dirname $OPD_INSTRUCTION)/budget.json
echo x > $(dirname $OPD_INSTRUCTION)/budget.json && echo WROTE the budget
echo x > /opd/bin/submit && echo WROTE a command
python3 -c 'import opd.evaluate' 2>/dev/null && echo IMPORTED the judge
find / -name 'final.jsonl' -o -name 'proxy.jsonl' -not -path '/proc/*' 2>/dev/null | sed 's/^/FOUND /'
no-candidate --because done
"""
    toy = new_toy(script, explore_seconds=60)
    toy.explore()
    printed = toy.file("explore/attempt-001/trajectory/native.log").read_text()
    assert "of 60 s are left" in printed
    assert '"given_seconds"' in printed
    assert not [line for line in printed.splitlines() if line.startswith(("WROTE", "IMPORTED", "FOUND"))], printed


def test_what_the_device_did_is_written_down_second_by_second(new_toy: Callable[..., Any]) -> None:
    toy = new_toy("sleep 11; timeout 11 python3 -c 'while True: pass'; no-candidate --because x", explore_seconds=90)
    _, facts = toy.explore()
    seconds = lines(toy.file("explore/attempt-001/device.jsonl"))
    assert 16 <= len(seconds) <= 32
    assert any(line["cpu_share"] > 0.3 for line in seconds), "the loop was seen"
    assert any(line["cpu_share"] < 0.05 for line in seconds), "and the sleep"
    assert 4 <= facts.idle_seconds <= 17


def test_a_sandbox_that_dies_is_the_machines_failure_and_another_exploration_is_due(
    new_toy: Callable[..., Any], sandbox: Any
) -> None:
    """faults H5."""
    if sandbox.rung.name not in {"bubblewrap", "unshare"}:
        pytest.skip(f"the sandbox {sandbox.rung.name} has no first process that ends all others")
    toy = new_toy("sleep 60", explore_seconds=60)

    def kill_the_first_process() -> bool:
        started = [event for event in toy.attempt.events.read() if event.kind == "started"]
        for life in marked(started[-1].data["mark"]):
            status = Path(f"/proc/{life.pid}/status").read_text()
            os.kill(int(status.partition("PPid:")[2].split()[0]), signal.SIGKILL)
            break
        return False

    receipt, _ = toy.explore(cancelled=kill_the_first_process)
    assert receipt.outcome == Explored.INFRA_FAILED, receipt.because
    assert [str(one.stage) for one in toy.status.due] == ["explore"]


def test_the_operator_ends_an_exploration_and_it_is_named_so(new_toy: Callable[..., Any]) -> None:
    toy = new_toy("sleep 60", explore_seconds=60)
    receipt, _ = toy.explore(cancelled=lambda: True)
    assert (receipt.outcome, receipt.because) == (Explored.CANCELLED, "by the operator")
    assert [place.number for place in toy.attempt.places(Stage.EXPLORE)] == [1]


def test_at_the_deadline_a_measurement_that_is_under_way_ends_and_is_sealed(new_toy: Callable[..., Any]) -> None:
    script = "mkdir -p $RUNS/a; cp -L $STUDENT_MODEL/* $RUNS/a/; fast-eval $RUNS/a; sleep 60"
    toy = new_toy(script, explore_seconds=4)
    receipt, facts = toy.explore()
    assert receipt.outcome == Explored.DEADLINE
    assert facts.proxies == 1
    outcome = json.loads(toy.file("explore/attempt-001/proxy/001/outcome.json").read_text())
    assert outcome["mean"] is None
    assert outcome["missing"].startswith("the evaluation ended by ")
    assert faults(toy.file("explore/attempt-001")) == () == faults(toy.file("explore/attempt-001/proxy/001"))


def test_words_of_an_explorer_reach_a_terminal_without_control_characters(new_toy: Callable[..., Any]) -> None:
    toy = new_toy("no-candidate --because $'red \\e[31m\\nline'", explore_seconds=30)
    receipt, _ = toy.explore()
    assert receipt.because == "red [31m line"


def test_a_tree_that_no_path_can_name_does_not_keep_a_try_from_being_sealed(new_toy: Callable[..., Any]) -> None:
    dig = "import os\nfor _ in range(2000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    toy = new_toy(
        f'cd $RUNS; python3 -c "{dig}"; mkdir closed; chmod 0 closed; no-candidate --because x', explore_seconds=60
    )
    try:
        receipt, _ = toy.explore()
        assert receipt.outcome == Explored.NO_CANDIDATE
        assert faults(toy.file("explore/attempt-001")) == ()
    finally:  # pytest's own removal doesn't get to the end of such a tree
        subprocess.run(["/bin/rm", "-rf", "--", toy.file("explore")], check=True)
