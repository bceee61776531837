#!/bin/bash
# One cell of a grid as a task of a Slurm array. `sskp sweep GRID --engine slurm` fills in what stands in double braces and submits it;
# a copy of this file with what your site needs is named with `--template`. A line whose value was not given is left out.
#SBATCH --job-name={{name}}
#SBATCH --array={{array}}
#SBATCH --cpus-per-task={{threads}}
#SBATCH --partition={{partition}}
#SBATCH --time={{time}}
#SBATCH --requeue
#SBATCH --signal=B:TERM@{{warning}}
#SBATCH --open-mode=append
#SBATCH --output={{logs}}/%A_%a.log
# An account, a quality of service, a constraint: further #SBATCH lines, here.

# Modules, or a container around the command below: here.

grid={{grid}}
out={{out}}
for path in "$grid" "$out/cells.txt"; do
    if [ ! -r "$path" ]; then
        echo "error: the node $(hostname) cannot see $path; grid and runs must lie on a file system that all nodes share" >&2
        exit 2
    fi
done

{{program}} sweep "$grid" --out "$out" --cell "$SLURM_ARRAY_TASK_ID" --quiet &
worker=$!
# Slurm sends the signal to this shell alone. The run answers with a checkpoint and exit code 75: to be continued.
trap 'kill -TERM "$worker"' TERM USR1
while :; do
    wait "$worker"
    code=$?
    kill -0 "$worker" 2>/dev/null || break
done
# Exit codes above 128 are signals: the worker was killed, and goes on at its checkpoint. One that is killed again and again (for its
# memory, say) must end some time.
if [ "$code" -eq 75 ] || { [ "$code" -gt 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 100 ]; }; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID" && exit 0
fi
exit "$code"
