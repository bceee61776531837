"""A search with two objectives, by Optuna: which settings of safe SAC earn the most on the toy, and which violate the least?

    python examples/search_settings.py [FOLDER] [TRIALS]

Every trial is a run under FOLDER, and the study is a file there. Interrupt it however you like: the same command goes on, the interrupted
run at its checkpoint. Optuna prunes no study with two directions, so every run is played to its end (with one direction, `value="violations"`
and `direction="minimize"`, its pruners stop what is behind). At the end the Pareto front is printed, and drawn as FOLDER/pareto.png.

Needs the wheel and `pip install optuna matplotlib`.
"""

import pathlib
import sys
import warnings

import matplotlib
import optuna
import sskp

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "runs/search")
wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 40


def settings(trial):
    """How dear a violation is, and how much chance the policy keeps: both trade reward against violations."""
    return {
        "ssac.violation.cost": trial.suggest_float("violation cost", 0.003, 30, log=True),
        "ssac.learner.entropy_per_action": trial.suggest_float("entropy", 0.5, 3.0),
        # The same in every trial: narrow networks that learn soon, for a toy, and checkpoints for who interrupts it.
        "ssac": {"random_steps": 300, "batch": 64, "learner": {"width": 64, "rate": 1e-3}},
        "run.checkpoint_every": 1_000,
    }


objective = sskp.optuna.objective(
    "ssac", "toy", settings, value=("reward_per_step", "violations"), total_steps=12_000, log_dir=folder / "trials"
)
folder.mkdir(parents=True, exist_ok=True)
study = optuna.create_study(
    storage=f"sqlite:///{folder}/study.db",
    study_name="safe SAC on the toy",
    load_if_exists=True,
    directions=["maximize", "minimize"],
    sampler=optuna.samplers.TPESampler(),
)
if resumed := sskp.optuna.resume(study):
    print(f"{resumed} interrupted trials go on")
over = len(study.get_trials(states=[optuna.trial.TrialState.COMPLETE]))
study.optimize(objective, n_trials=max(wanted - over, 0))

print("reward per step   violations   settings")
for trial in sorted(study.best_trials, key=lambda trial: trial.values[1]):
    print(f"{trial.values[0]:15.3f}   {trial.values[1]:10.0f}   {trial.params}")

matplotlib.use("Agg")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    axes = optuna.visualization.matplotlib.plot_pareto_front(study, target_names=["reward per step (PtR)", "violations (#V)"])
axes.set_title("safe SAC on the toy, 12 000 steps a trial")
axes.figure.savefig(folder / "pareto.png", dpi=130, bbox_inches="tight")
print(f"drawn in {folder / 'pareto.png'}")
