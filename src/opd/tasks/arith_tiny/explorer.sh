#!/usr/bin/env bash
# A scripted explorer: in small, what a coding agent once did on opd_math_1p5b in three hours. It measures the
# baseline and two other objectives, finds that the launcher never shuffles, and hands in just that.
set -euo pipefail

steps=12

probe() {  # NAME SETTING…: a short training with these settings, and its measurement
  local name=$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  OUT="$RUNS/$name" on-device bash run.sh --set budget.steps=$steps --set save.every=$steps "${settings[@]}"
  fast-eval "$RUNS/$name/checkpoint-$steps" --note "$name: $steps steps${*:+, $*}"
}

echo "the task:"
sed -n '1,12p' "$OPD_INSTRUCTION"

probe baseline
probe reward reward.weight=1
probe top-16-forward-kl objective.name=topk_forward_kl objective.k=16

echo "the data order:"
grep -n shuffle run.sh
sed -i 's/data.shuffle=false/data.shuffle=true/' run.sh
git --no-pager diff --stat
probe shuffle

timer
submit --note "shuffle the rows by the seed" --with-time-left
