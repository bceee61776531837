"""Studies: what a trial reports, how it is pruned, and that one that was interrupted goes on as if it had not been."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import optuna
import pytest
from conftest import LIMIT, ROOT, until

import sskp
import sskp.optuna as ours

optuna.logging.set_verbosity(optuna.logging.WARNING)
STEPS = 6000
CONFIG = {"run.checkpoint_every": 500, "sac.random_steps": 500, "sac.learner.width": 32}
STATE = optuna.trial.TrialState


def settings(trial):
    return {**CONFIG, "sac.batch": trial.suggest_int("batch", 8, 64)}


def rows(path):
    return pathlib.Path(path, "episodes.csv").read_bytes()


def undisturbed(trial, folder, steps=STEPS):
    """The rows of a run with a trial's settings that nobody interrupts."""
    path = folder / f"undisturbed-{trial.number}"
    config = {**CONFIG, "sac.batch": trial.params["batch"]}
    sskp.train("sac", "toy", total_steps=steps, log_dir=path, config=config, progress=False)
    return rows(path)


def expected_reports(path, every):
    """[steps, PtR, #V] at the first episode that ends at or after each multiple, from the rows on disk."""
    reports, reward, at = [], 0.0, 0
    with open(path / "episodes.csv", newline="") as text:
        for row in csv.DictReader(text):
            steps, reward = int(row["steps"]), reward + float(row["return"])
            if steps // every > at:
                at = steps // every
                reports.append([steps, reward / steps, int(row["cumulative_violations"])])
    return reports


class PruneSecond(optuna.pruners.BasePruner):
    """Prunes trial 1 when it has reported twice."""

    def prune(self, study, trial):
        return trial.number == 1 and len(trial.intermediate_values) == 2


def test_a_trial_reports_and_one_that_is_pruned_has_stopped_and_says_so(folder):
    objective = ours.objective("sac", "toy", settings, total_steps=STEPS, log_dir="study", report_every=1000)
    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(direction="maximize", pruner=PruneSecond(), sampler=sampler)
    study.optimize(objective, n_trials=3)
    assert [trial.state for trial in study.trials] == [STATE.COMPLETE, STATE.PRUNED, STATE.COMPLETE]
    for trial in study.trials:
        path = folder / f"study/trial-{trial.number:04}"
        reports = expected_reports(path, 1000)
        so_far = trial.user_attrs["sskp so far"]
        assert [list(map(float, report)) for report in so_far] == [pytest.approx(report) for report in reports]
        assert list(trial.intermediate_values) == [report[0] // 1000 * 1000 for report in reports]
        assert list(trial.intermediate_values.values()) == pytest.approx([report[1] for report in reports])
        told, summary = (json.loads((path / name).read_text()) for name in ("trial.json", "summary.json"))
        if trial.number == 1:
            assert len(reports) == 2 and not summary["finished"] and 2000 <= summary["steps"] < 3200
            assert (told["state"], told["params"]) == ("pruned", trial.params) and told["at_step"] == reports[-1][0]
        else:
            assert trial.value == summary["ptr"] and told["state"] == "complete" and told["values"] == [trial.value]
            assert summary["finished"] and rows(path) == undisturbed(trial, folder)
    assert ours.resume(study) == 0, "what was pruned is over"


class WaitAtSix(optuna.pruners.BasePruner):
    """Holds a trial at its report of step 6000 until there is a file `go`: the run waits for what the pruner says, so whatever happens to
    it meanwhile happens in its middle, and no storage is locked."""

    def prune(self, study, trial):
        while trial.last_step >= 6000 and not os.path.exists("go"):
            pathlib.Path("waiting").touch()
            time.sleep(0.02)
        return False


PROGRAM = """
import sys, optuna, sskp
from optuna.storages.journal import JournalFileBackend
sys.path.insert(0, {tests!r})
from test_optuna import WaitAtSix, settings

storage = {{"sqlite": lambda: "sqlite:///study.db", "journal": lambda: optuna.storages.JournalStorage(JournalFileBackend("study.log"))}}
study = optuna.create_study(
    storage=storage[{storage!r}](), study_name="s", load_if_exists=True, direction="maximize",
    sampler=optuna.samplers.RandomSampler(seed=1), pruner=WaitAtSix(),
)
print("resumed", sskp.optuna.resume(study), flush=True)
objective = sskp.optuna.objective("sac", "toy", settings, total_steps=20_000, log_dir="study", report_every=2000)
over = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)
study.optimize(objective, n_trials=2 - len(study.get_trials(states=over)))
"""


def started(storage):
    """The program in a process of its own."""
    program = PROGRAM.format(tests=str(pathlib.Path(__file__).parent), storage=storage)
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)


def waiting(folder, process):
    """Waits until the program's first trial is held in its middle."""

    def there():
        assert process.poll() is None, "it ended too early"
        return (folder / "waiting").exists()

    until(there, "trial that waits")


@pytest.mark.parametrize(("storage", "number"), [("sqlite", signal.SIGKILL), ("journal", signal.SIGKILL), ("sqlite", signal.SIGINT)])
def test_an_interrupted_trial_goes_on_exactly(folder, storage, number):
    process, run = started(storage), folder / "study/trial-0000"
    waiting(folder, process)
    os.kill(process.pid, number)
    # Where it saves itself it must come out of the pruner first; it has the signal by now.
    (folder / "go").touch()
    process.wait(LIMIT)
    newest = max(int(path.name[5:]) for path in run.glob("checkpoints/step-*"))
    assert 5000 <= newest < 8000 and rows(run)
    ended = run / ".claims/1-ended"
    assert ended.read_text() == "stopped\n" if number == signal.SIGINT else not ended.exists()
    assert not (run / "summary.json").exists() or not json.loads((run / "summary.json").read_text())["finished"]
    assert started(storage).wait(LIMIT) == 0
    from_storage = {
        "sqlite": lambda: "sqlite:///study.db",
        "journal": lambda: optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend("study.log")),
    }
    study = optuna.load_study(study_name="s", storage=from_storage[storage]())
    first, second, third = study.trials
    assert [first.state, second.state, third.state] == [STATE.FAIL, STATE.COMPLETE, STATE.COMPLETE]
    assert second.params == first.params and second.user_attrs["sskp run"] == str(run)
    # The run went on: at its checkpoint, in a second part, to the rows of one that was not interrupted.
    assert (run / ".claims/2").exists() and not (run / ".claims/3").exists()
    assert rows(run) == undisturbed(second, folder, steps=20_000)
    assert second.user_attrs["sskp so far"] == [pytest.approx(r) for r in expected_reports(run, 2000)]
    assert len(second.intermediate_values) >= 8 and set(first.intermediate_values.items()) <= set(second.intermediate_values.items())
    assert not (folder / "study/trial-0001").exists() and (folder / "study/trial-0002/trial.json").exists()
    assert ours.resume(study) == 0


def test_a_run_that_somebody_has_is_left_alone(folder):
    process = started("sqlite")
    try:
        waiting(folder, process)
        study = optuna.load_study(study_name="s", storage="sqlite:///study.db")
        assert ours.resume(study) == 0 and study.trials[0].state == STATE.RUNNING
        study.enqueue_trial(study.trials[0].params, user_attrs={"sskp run": str(folder / "study/trial-0000")})
        objective = ours.objective("sac", "toy", settings, total_steps=20_000, log_dir="study")
        with pytest.raises(RuntimeError, match=f"is being run by process {process.pid}"):
            study.optimize(objective, n_trials=1)
    finally:
        process.kill()
        process.wait()


def test_a_study_of_two_directions_is_not_pruned(folder):
    values = ("reward_per_step", "violations")
    objective = ours.objective("sac", "toy", settings, value=values, total_steps=3000, log_dir="study")
    study = optuna.create_study(directions=["maximize", "minimize"], pruner=PruneSecond())
    study.optimize(objective, n_trials=2)
    for trial in study.trials:
        summary = json.loads((folder / f"study/trial-{trial.number:04}/summary.json").read_text())
        assert trial.values == [summary["ptr"], summary["violations"]] and summary["finished"]
        assert len(trial.user_attrs["sskp so far"]) >= 5 and trial.intermediate_values == {}
    assert 1 <= len(study.best_trials) <= 2


def test_the_example_draws_its_front_and_goes_on(folder):
    example = [sys.executable, str(ROOT / "examples/search_settings.py"), "search"]
    for trials in ("2", "3"):
        done = subprocess.run([*example, trials], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0 and "reward per step   violations" in done.stdout, done.stderr
        assert (folder / "search/pareto.png").read_bytes().startswith(b"\x89PNG")
    assert len(list(folder.glob("search/trials/trial-*/summary.json"))) == 3


def test_what_cannot_work_is_one_sentence(folder):
    make = lambda **more: ours.objective(**{"algo": "sac", "env": "toy", "settings": settings, "total_steps": 300, "log_dir": "study", **more})  # noqa: E731
    for error, text, more in [
        (TypeError, "settings must be a function of a trial, not a dict", {"settings": {}}),
        (ValueError, "value must be 'reward_per_step' or 'violations' or a function of a run, not 'reward'", {"value": "reward"}),
        (ValueError, "value names nothing", {"value": ()}),
        (ValueError, "report_every must be a whole number from 1", {"report_every": 0}),
    ]:
        with pytest.raises(error, match=text):
            make(**more)
    study = optuna.create_study(direction="minimize", study_name="one")
    with pytest.raises(ValueError, match="makes no sense: minimize reward_per_step"):
        study.optimize(make(), n_trials=1)
    with pytest.raises(ValueError, match="the study has 1 directions and the objective 2 values"):
        study.optimize(make(value=("reward_per_step", "violations")), n_trials=1)
    score = lambda run: run.violations - run.reward_per_step  # noqa: E731
    with pytest.raises(ValueError, match="sac.batsh"):
        study.optimize(make(value=score, settings=lambda trial: {"sac.batsh": 3}), n_trials=1)
    assert "sac.batsh" in study.trials[-1].user_attrs["sskp error"] and ours.resume(study) == 0
    assert json.loads((folder / "study/trial-0002/trial.json").read_text())["state"] == "failed"
    # Another study in the same folder, and the same one with runs of another length.
    study.optimize(make(value=score, log_dir="again"), n_trials=1)
    summary = json.loads((folder / "again/trial-0003/summary.json").read_text())
    assert study.best_value == summary["violations"] - summary["ptr"]
    os.rename("again/trial-0003", "again/trial-0000")
    with pytest.raises(ValueError, match="trial-0000 is a run of the study 'one': name another log_dir"):
        optuna.create_study(study_name="two").optimize(make(value=score, log_dir="again"), n_trials=1)
    os.rename("again/trial-0000", "again/trial-0004")
    study.enqueue_trial(study.best_params)
    with pytest.raises(ValueError, match="a run of 300 steps, and 400 are asked for"):
        study.optimize(make(value=score, log_dir="again", total_steps=400), n_trials=1)
