#!/usr/bin/env bash
# Builds Helm and gets the definitions of the extensions that the chart and the examples name, with whose schemas the
# tests check the manifests: `scripts/helm.sh FOLDER`. Helm believes in a cluster of the version of these schemas.
set -euo pipefail
folder="$(cd "$1" && pwd)"
kube=helm.sh/helm/v3/pkg/chartutil.k8sVersion

definitions() { # MODULE FOLDER_IN_IT COPY
  mkdir -p "$folder/crds/$(dirname "$3")"
  cp -r "$(cd / && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')/$2" "$folder/crds/$3"
  chmod -R u+w "$folder/crds/$3"
}

GOBIN="$folder" timeout --foreground 600 go install -ldflags "-X ${kube}Major=1 -X ${kube}Minor=37" \
  helm.sh/helm/v3/cmd/helm@v3.22.0
rm -rf "$folder/crds"
definitions sigs.k8s.io/gateway-api@v1.6.3 config/crd/standard chart/gateway-api
definitions sigs.k8s.io/gateway-api@v1.6.3 config/crd/experimental examples/gateway-api
definitions github.com/prometheus-operator/prometheus-operator@v0.94.1 example/prometheus-operator-crd chart/prometheus
definitions github.com/envoyproxy/gateway@v1.9.1 charts/gateway-helm/charts/crds/crds/generated examples/envoy-gateway
definitions github.com/traefik/traefik/v3@v3.6.13 integration/fixtures/k8s/01-traefik-crd.yml examples/traefik.yml
definitions github.com/cert-manager/cert-manager@v1.21.2 deploy/crds examples/cert-manager
