#!/usr/bin/env bash
# Builds the control plane of Kubernetes, kubectl and Helm from their Go modules, and gets the definitions of the
# extensions that the chart and the examples name: `scripts/kubernetes.sh FOLDER`. It takes ten minutes the first time,
# and nothing until the versions change. etcd is Debian's.
set -euo pipefail
mkdir -p "$1"
folder="$(cd "$1" && pwd)"
cd "$(dirname "$0")/.."
minor=37 patch=2

made="$(cat scripts/kubernetes.sh scripts/helm.sh | cksum)"
if [ "$(cat "$folder/made" 2>/dev/null)" = "$made" ]; then exit; fi

mkdir -p "$folder/helm"
bash scripts/helm.sh "$folder/helm"

# The module of Kubernetes asks for parts of itself as v0.0.0, which whoever builds it replaces.
rm -rf "$folder/module"
mkdir "$folder/module"
cd "$folder/module"
kubernetes="k8s.io/kubernetes@v1.$minor.$patch"
go mod init gatehouse.test/kubernetes
go mod edit -require="$kubernetes"
definition="$(cd / && go mod download -json "$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p')"
for part in $(sed -n 's/^\t\(k8s\.io\/[a-z-]*\) v0\.0\.0$/\1/p' "$definition"); do
  go mod edit -replace="$part=$part@v0.$minor.$patch"
done
# Without its version, the server says v0.0.0, and Helm refuses the chart.
version=k8s.io/component-base/version.git
go build -mod=mod -trimpath -o "$folder/" \
  -ldflags "-s -w -X ${version}Version=v1.$minor.$patch -X ${version}Major=1 -X ${version}Minor=$minor" \
  k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kubectl
echo "$made" >"$folder/made"
