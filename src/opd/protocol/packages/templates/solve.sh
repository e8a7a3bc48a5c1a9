#!/usr/bin/env bash
# The reference solution is the shipped recipe, unmodified: the workspace's own run.sh. It is not run here, since what
# is judged is trained anew from the fixed start.
set -euo pipefail
cp "$(dirname "${BASH_SOURCE[0]}")/run.sh" "${OPD_WORKSPACE:-/workspace}/run.sh"
