#!/usr/bin/env bash
# A scripted explorer: in small, what a coding agent once did on opd_math_1p5b in three hours. It measures the
# baseline and two other objectives, finds that the launcher never shuffles, and hands in just that.
set -euo pipefail

steps=12

probe() {  # NAME WHY SETTING…: a short training with these settings, and its measurement
  local name=$1 why=$2 settings=()
  shift 2
  note "$why" --about "$RUNS/$name"
  for setting in "$@"; do settings+=(--set "$setting"); done
  OUT="$RUNS/$name" on-device bash run.sh --set budget.steps=$steps --set save.every=$steps "${settings[@]}"
  fast-eval "$RUNS/$name/checkpoint-$steps" --note "$name: $steps steps${*:+, $*}"
}

echo "the task:"
sed -n '1,12p' "$OPD_INSTRUCTION"

probe baseline "How far do $steps steps of the shipped recipe come? Whatever follows is set beside this."
probe reward "A reward for right answers beside the teacher's signal may favour what the measure counts." reward.weight=1
probe top-16-forward-kl "Sixteen of the teacher's candidates a token say more than the one that was sampled." \
  objective.name=topk_forward_kl objective.k=16
note "Both objectives change what is learned from a token, and one seed of $steps steps can't tell by how much: I keep \
the shipped one." --about "$RUNS/top-16-forward-kl"

echo "the data order:"
grep -n shuffle run.sh
sed -i 's/data.shuffle=false/data.shuffle=true/' run.sh
git --no-pager diff --stat
probe shuffle "The launcher never shuffles: a run that the clock ends sees the same first rows each time, and no others."
note "This rests on how the rows are read, not on its score." --about "$RUNS/shuffle"

timer
submit --note "shuffle the rows by the seed" --with-time-left
