#!/bin/bash
# A grid of 12 toy cells on a real Slurm of one node, disturbed in every way it can be, against an undisturbed sweep.
#
#   tests/cluster/slurm.sh PROGRAM
#
# Starts a Slurm of its own (slurmctld and slurmd, with files and ports of its own) in a temporary folder: no cluster that is there is touched. All 12
# cells run at once; the time limit is the shortest that Slurm has, a minute, and Slurm asks for checkpoints at its ticks of half a
# minute; meanwhile tasks are requeued and workers killed with -9 at random. Ends with 0 if every row is that of the undisturbed sweep and
# every cell was interrupted at least twice.
set -eu -o pipefail
program=$(realpath "$1")
cells=12
home=$(mktemp -d)
node=$(hostname -s)
export SLURM_CONF=$home/slurm.conf SSKP_CACHE=$home/cache

say() { echo "$(date -u +%T) $*"; }
clean() {
    scancel --me 2>/dev/null || true
    for name in slurmd slurmctld; do
        [ -f "$home/$name.pid" ] && kill "$(cat "$home/$name.pid")" 2>/dev/null || true
    done
    rm -rf "$home"
}
trap clean EXIT

mkdir "$home/state" "$home/spool"
cat > "$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$node
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/none
CredType=cred/none
# How long a requeued job waits; two minutes where nothing is said, or less than this.
AuthInfo=cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation=$home/state
SlurmdSpoolDir=$home/spool
SlurmctldPidFile=$home/slurmctld.pid
SlurmdPidFile=$home/slurmd.pid
SlurmctldLogFile=$home/slurmctld.log
SlurmdLogFile=$home/slurmd.log
SlurmctldPort=26817
SlurmdPort=26818
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2,bf_interval=5
# As many tasks at once as there are cells, whatever the machine has.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
NodeName=$node CPUs=$cells State=UNKNOWN
PartitionName=short Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
slurmctld
slurmd
for _ in $(seq 30); do
    sinfo -h -o %T | grep -q idle && break
    sleep 1
done
sinfo -h -o "Slurm has the partition %P with %D node, %c CPUs, %T"

grid() {
    cat > "$home/grid.toml" <<GRID
out = "runs"
steps = $1
seeds = [0, 1, 2, 3, 4, 5]
[set.run]
checkpoint_every = 500
[set.sac]
random_steps = 500
batch = 32
learner.width = 32
[set.ssac]
random_steps = 500
batch = 32
learner.width = 32
[[cells]]
robots = ["toy"]
methods = ["sac", "ssac"]
GRID
}
# Long enough on this machine, as busy as it is, for all cells at once to take two minutes.
probe=8000
grid $probe
began=$(date +%s%N)
"$program" sweep "$home/grid.toml" --out "$home/probe" --jobs $cells --quiet > "$home/said"
took=$((($(date +%s%N) - began) / 1000000))
steps=$((probe * 120000 / took))
grid $steps
say "12 cells of $steps steps; of $probe they took $took ms"
sweep() { "$program" sweep "$home/grid.toml" --out "$home/runs" "$@"; }

say "undisturbed, here"
"$program" sweep "$home/grid.toml" --out "$home/whole" --jobs $cells --quiet

say "what cannot work is one sentence"
refused() {
    local text
    if text=$(env "$1" "$program" sweep "$home/grid.toml" --out "$home/runs" --engine slurm "${@:2}" 2>&1); then
        echo "it was not refused: $*"
        exit 1
    fi
    [ "$(echo "$text" | wc -l)" = 1 ] || { echo "more than one sentence: $text"; exit 1; }
    echo "  $text"
}
refused PATH="$PATH" --partition nowhere
refused PATH=/nowhere

say "on Slurm, disturbed"
sweep --engine slurm --partition short --time 1 --warning 10
sweep --engine slurm --partition short --time 1 --warning 10
RANDOM=17
share=3
# How often its cell was claimed, the process, the cell: of every worker that runs.
workers() {
    pgrep -af "^$program sweep $home/grid.toml .*--cell" | while read -r pid command; do
        cell=${command#*--cell }
        cell=${cell%% *}
        folder=$(sed -n "$((cell + 1))p" "$home/runs/cells.txt" | cut -f2)
        echo "$(claims "$home/runs/$folder") $pid $cell"
    done
}
claims() { find "$1/.claims" -name '[0-9]*' ! -name '*-ended' 2>/dev/null | wc -l; }
start=$SECONDS
kills=0 requeues=0
while :; do
    sleep 0.5
    done=$(cat "$home"/runs/toy/*/*/summary.json 2>/dev/null | grep -c '"finished": true' || true)
    [ "$done" = "$cells" ] && break
    if [ $((SECONDS - start)) -gt 900 ]; then
        echo "not done after 15 minutes"
        sweep --status
        tail -n 5 "$home"/runs/slurm/*.log
        exit 1
    fi
    # Nothing waits and nothing runs, and cells are open: a task's own shell was lost. The same command submits what is left.
    [ -n "$(squeue -h)" ] || sweep --engine slurm --partition short --time 1 --warning 10
    # Every worker of a cell that has not had its share, and now and then another one, in a way that is chosen at random.
    while read -r parts worker cell; do
        if [ "$parts" -ge "$share" ] && [ $((RANDOM % 20)) != 0 ]; then
            continue
        fi
        if [ $((RANDOM % 2)) = 0 ]; then
            kill -9 "$worker" 2>/dev/null && kills=$((kills + 1)) || true
        else
            task=$(squeue -h -r -t R -o "%i %K" | awk -v cell="$cell" '$2 == cell { print $1 }')
            [ -n "$task" ] && scontrol requeue "$task" && requeues=$((requeues + 1)) || true
        fi
    done < <(workers)
    if [ $(((SECONDS - start) / 30)) != "${shown:-0}" ]; then
        shown=$(((SECONDS - start) / 30))
        say "$done finished, $kills workers killed, $requeues tasks requeued by hand"
        [ "$shown" != 1 ] || sweep --status
    fi
done
limits=$(grep -l "was stopped" "$home"/runs/slurm/*.log | wc -l || true)
say "all finished after $((SECONDS - start)) s: $kills workers killed, $requeues tasks requeued by hand, $limits cells stopped by a signal"
sweep --status

least=1000
for folder in "$home"/runs/toy/*/seed-*; do
    part=${folder#"$home/runs/"}
    parts=$(claims "$folder")
    [ "$parts" -lt "$least" ] && least=$parts
    cmp "$folder/episodes.csv" "$home/whole/$part/episodes.csv"
    echo "  $part: run in $parts parts, rows the same: $(sha256sum < "$folder/episodes.csv" | cut -c1-12)"
done
if [ "$least" -lt 3 ]; then
    echo "a cell was interrupted less than twice"
    exit 1
fi
say "12 cells, each in at least $least parts, have the rows of the undisturbed sweep"
