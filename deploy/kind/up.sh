#!/usr/bin/env bash
# deploy/kind/up.sh: a kind cluster with dra-reserve in mode replace.
#
# Builds the image, starts the cluster of deploy/kind/cluster.yaml, loads the image onto its nodes, installs. May be run
# again: what is there already stays. kind, kubectl and docker (or podman) are yours to bring; what is missing is said
# before anything is done. `deploy/kind/up.sh --check` says only that. To remove it: kind delete cluster --name dra-reserve
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly CLUSTER=dra-reserve IMAGE=dra-reserve:0.1.0

missing=()
need() { # NAME WHAT-FOR
  command -v "$1" >/dev/null || missing+=("$1: $2")
}
need kind "starts the cluster (https://kind.sigs.k8s.io)"
need kubectl "installs (https://kubernetes.io/docs/tasks/tools)"
engine=$(command -v docker || command -v podman || true)
if [[ -z $engine ]]; then
  missing+=("docker or podman: builds the image and runs the nodes")
elif ! "$engine" info >/dev/null 2>&1; then
  missing+=("a running ${engine##*/}: it is installed, but does not answer (${engine##*/} info)")
fi
if ((${#missing[@]})); then
  printf 'error: missing, nothing has been done:\n' >&2
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
fi
if [[ ${1:-} == --check ]]; then
  echo 'everything needed is there'
  exit 0
fi

[[ $engine == */podman ]] && export KIND_EXPERIMENTAL_PROVIDER=podman
"$engine" build --file deploy/Containerfile --tag "$IMAGE" .
kind get clusters | grep --quiet --line-regexp "$CLUSTER" || kind create cluster --config deploy/kind/cluster.yaml
archive=$(mktemp --suffix=.tar)
trap 'rm -f "$archive"' EXIT
"$engine" save --output "$archive" "$IMAGE" # docker and podman name an image differently once it is loaded from them
kind load image-archive "$archive" --name "$CLUSTER"
context=(--context "kind-$CLUSTER")
kubectl "${context[@]}" apply -k deploy/kustomize/kind
kubectl "${context[@]}" rollout status deployment dra-reserve-controller -n dra-reserve --timeout=120s
echo "Next: kubectl --context kind-$CLUSTER apply -f examples/shared-claim/devices.yaml -f examples/shared-claim/claim.yaml"
