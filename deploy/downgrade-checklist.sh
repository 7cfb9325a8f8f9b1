#!/bin/sh
# What is left to do before dra-reserve can be taken off a cluster, and what it can do itself:
#
#   sh downgrade-checklist.sh                      looks, and changes nothing
#   sh downgrade-checklist.sh --apply              does what can be done; start it again as often as you like
#   sh downgrade-checklist.sh --apply --purge      the same for an uninstallation: no annotation of ours is left
#
# All options are those of `kubectl dra downgrade`, and so are the exit codes: 0 ready, 1 work is left, 2 an error.
# What each line means: https://github.com/dra-reserve/dra-reserve/blob/main/docs/how-to/downgrade.md
set -eu

if command -v kubectl-dra >/dev/null 2>&1; then
  exec kubectl-dra downgrade "$@"
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
for python in "$here/.venv/bin/python" python3; do
  if (cd "$here" && "$python" -c 'import dra.cli.kubectl.main') >/dev/null 2>&1; then
    cd "$here"
    exec "$python" -m dra.cli.kubectl.main downgrade "$@"
  fi
done
echo "kubectl-dra is not on PATH. Run this script in a clone after 'make venv', or install the wheel file that 'make dist' builds:" >&2
echo "  pip install PATH/dra_reserve-VERSION-py3-none-any.whl" >&2
exit 2
