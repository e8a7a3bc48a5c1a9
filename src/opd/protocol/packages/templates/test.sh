#!/usr/bin/env bash
# Trains what was handed in from the fixed start, evaluates its checkpoints by @@metric@@ and writes
# /logs/verifier/reward.json. Without a valid score it writes none: a missing result is not a zero.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd /
exec python -I -m opd.protocol.packages.verdict \
  --task "$here" \
  --workspace "${OPD_WORKSPACE:-/workspace}" \
  --inputs "${OPD_INPUTS:-/inputs}" \
  --out "${OPD_VERDICT:-/logs/verifier}"
