{{/* Refuses what a line without a value leaves: no defaults, and templates that fail in words for their authors. */}}
{{- define "gatehouse.checkEmpty" -}}
{{- range $key := list "image" "forwardAuth" "certService" "gateway" "networkPolicy" "monitoring" "podSecurityContext" }}
{{- $given := index $.Values $key }}
{{- if not (kindIs "map" $given) }}
{{- fail (printf "%s is empty: remove the line to keep its defaults%s" $key (ternary (printf ", or set %s.enabled to false" $key) "" (has $key (list "forwardAuth" "certService")))) }}
{{- end }}
{{- range $part := list "config" "secretFiles" "storage" "serviceAccount" "service" "ingress" "autoscaling" "resources" }}
{{- if and (has $key (list "forwardAuth" "certService")) (not (kindIs "map" (index $given $part))) }}
{{- fail (printf "%s.%s is empty: remove the line to keep its defaults" $key $part) }}
{{- end }}
{{- end }}
{{- end }}
{{- include "gatehouse.checkPlaces" . }}
{{- end }}

{{/* Where the values are that people write in other places, as other charts have them. */}}
{{- define "gatehouse.places" -}}
replicaCount: replicas
extraEnv: env
extraEnvVars: env
volumes: extraVolumes
volumeMounts: extraVolumeMounts
persistence: storage
serviceAccountAnnotations: serviceAccount.annotations
{{- end }}

{{/* The same of values that are for both services. */}}
{{- define "gatehouse.sharedPlaces" -}}
image: image.registry and image.tag
imagePullSecrets: image.pullSecrets
securityContext: podSecurityContext
podSecurityContext: podSecurityContext
serviceMonitor: monitoring.serviceMonitor
prometheusRule: monitoring.prometheusRule
httpRoute: gateway
{{- end }}

{{/* Refuses what has another place, and names that. The schema lets it pass for this. */}}
{{- define "gatehouse.checkPlaces" -}}
{{- $own := include "gatehouse.places" . | fromYaml }}
{{- $places := deepCopy $own }}
{{- $shared := include "gatehouse.sharedPlaces" . | fromYaml }}
{{- range $name := list "replicas" "config" "secretFiles" "storage" "env" "resources" "serviceAccount" "service" "ingress" "autoscaling" "extraVolumes" "extraVolumeMounts" }}
{{- $_ := set $places $name $name }}
{{- end }}
{{- range $name, $place := $places }}
{{- if hasKey $.Values $name }}
{{- fail (printf "%s is no value of this chart, which has two services: write forwardAuth.%s, certService.%s, or both" $name $place $place) }}
{{- end }}
{{- end }}
{{- range $name, $place := omit $shared "image" "podSecurityContext" }}
{{- if hasKey $.Values $name }}
{{- fail (printf "%s is no value of this chart: write %s, for both services" $name $place) }}
{{- end }}
{{- end }}
{{- range $name, $place := dict "repository" "image.registry, without the name of the image" "digest" "forwardAuth.imageDigest and certService.imageDigest" }}
{{- if hasKey $.Values.image $name }}
{{- fail (printf "image.%s is no value of this chart: write %s" $name $place) }}
{{- end }}
{{- end }}
{{- range $key := list "forwardAuth" "certService" }}
{{- $given := index $.Values $key }}
{{- range $name, $place := $own }}
{{- if hasKey $given $name }}
{{- fail (printf "%s.%s is no value of this chart: write %s.%s" $key $name $key $place) }}
{{- end }}
{{- end }}
{{- range $name, $place := $shared }}
{{- if hasKey $given $name }}
{{- fail (printf "%s.%s is no value of this chart: write %s, for both services" $key $name $place) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses values of the release. */}}
{{- define "gatehouse.checkAll" -}}
{{- $registry := .Values.image.registry }}
{{- $step := "push the images to a registry of yours and name it here (docs/kubernetes.md, step 1)" }}
{{- if not $registry }}
{{- fail (printf "image.registry is empty: %s" $step) }}
{{- end }}
{{- if regexMatch "(^|\\.)example\\.(com|net|org)(:[0-9]+)?(/|$)" $registry }}
{{- fail (printf "image.registry is %s, which is an example that no image can be pulled from: %s" $registry $step) }}
{{- end }}
{{- end }}

{{/* Refuses values that make no service that works. What a schema can say is in values.schema.json. */}}
{{- define "gatehouse.check" -}}
{{- $root := .root }}
{{- $service := .service }}
{{- $values := $service.values }}
{{- $given := index $root.Values $service.key "config" }}
{{- $key := $service.key }}
{{- if and (not $values.serviceAccount.create) (not $values.serviceAccount.name) }}
{{- fail (printf "%s.serviceAccount.create is false: name the service account that is there in %s.serviceAccount.name" $key $key) }}
{{- end }}
{{- range $label := keys (include "gatehouse.podValue" (merge (dict "value" "podLabels") .) | fromYaml) }}
{{- if hasKey (include "gatehouse.selectorLabels" $ | fromYaml) $label }}
{{- fail (printf "podLabels has %s, by which the chart selects the pods of %s: remove it" $label $.component) }}
{{- end }}
{{- end }}
{{- range $values.extraVolumes }}
{{- if has .name (list "config" "secrets" "data") }}
{{- fail (printf "%s.extraVolumes has a volume %s, as the chart does: give it another name" $key .name) }}
{{- end }}
{{- end }}
{{- include "gatehouse.check.autoscaling" . }}
{{- if and (gt (int $values.replicas) 1) (not $values.storage.databaseUrl) }}
{{- fail (printf "%s.replicas is %d, but a folder is for one: name a database in %s.storage.databaseUrl, or set replicas to 1" $key (int $values.replicas) $key) }}
{{- end }}
{{- range $path := list "metrics" "server.host" "server.port" "server.grpc" "server.plainHttp" "storage.path" "storage.url" "storage.urlFile" "storage.masterKey" "storage.masterKeyFile" "session.keys" }}
{{- $parts := splitList "." $path }}
{{- $at := index $given (first $parts) }}
{{- if eq (len $parts) 2 }}
{{- $at = index ($at | default dict) (last $parts) }}
{{- end }}
{{- if not (kindIs "invalid" $at) }}
{{- $place := dict "metrics" "monitoring" "server.host" "listenHost" "server.port" "no value, as nothing needs it" "server.grpc" "forwardAuth.grpc" "server.plainHttp" "certService.plainHttp" "storage.path" (printf "%s.storage" $key) "storage.url" (printf "%s.storage.databaseUrl" $key) "storage.urlFile" (printf "%s.storage.databaseUrl" $key) "storage.masterKey" "certService.masterKey" "storage.masterKeyFile" "certService.masterKey" "session.keys" "forwardAuth.sessionKeys" }}
{{- fail (printf "%s.config.%s is set by the chart: remove it. The value for it is %s" $key $path (index $place $path)) }}
{{- end }}
{{- end }}
{{- if and ($given.storage | default dict).caFile (not $values.storage.databaseUrl) }}
{{- fail (printf "%s.config.storage.caFile is the CA of a database, but there is none: name it in %s.storage.databaseUrl, or remove caFile" $key $key) }}
{{- end }}
{{- range $file := regexFindAll "/run/secrets/gatehouse/[-A-Za-z0-9_.]+" (toYaml $service.config) -1 | uniq }}
{{- if not (hasKey $service.files (base $file)) }}
{{- fail (printf "%s.config names %s, but no Secret is mounted there: add %s to %s.secretFiles, as { secretName: …, key: … }" $key $file (base $file) $key) }}
{{- end }}
{{- end }}
{{- if and (regexMatch "/var/run/secrets/kubernetes.io/serviceaccount/|kubernetesServiceAccount" (toYaml $service.config)) (not $service.token) }}
{{- fail (printf "%s.config reads the token of its service account, which is not mounted: set %s.serviceAccountToken to true" $key $key) }}
{{- end }}
{{- include (printf "gatehouse.check.%s" $key) $root }}
{{- include "gatehouse.checkEgress" . }}
{{- end }}

{{/* Refuses what a service connects to on a port that the network policy closes. Rules of extraEgress may open it. */}}
{{- define "gatehouse.checkEgress" -}}
{{- $policy := .root.Values.networkPolicy }}
{{- if and $policy.enabled $policy.egressPorts (not $policy.extraEgress) }}
{{- /* No policy closes the ways within the release, and within a pod. */}}
{{- $near := list "localhost" }}
{{- range $component := list "forward-auth" "cert-service" }}
{{- $near = concat $near (include "gatehouse.serviceNames" (dict "root" $.root "component" $component) | fromYamlArray) }}
{{- end }}
{{- range $peer := include "gatehouse.peers" . | fromJsonArray }}
{{- $port := regexFind "[0-9]+$" $peer }}
{{- $host := regexReplaceAll "(?i)^https?://|:[0-9]+$" $peer "" }}
{{- if not (or (has $port (include "gatehouse.openPorts" $ | fromJsonArray)) (has $host $near) (regexMatch `^127\.|^\[::1\]$` $host)) }}
{{- fail (printf "networkPolicy.egressPorts does not open port %s of %s in %s.config: add it, or the service cannot reach it" $port $peer $.service.key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What the configuration of a service has it connect to at a port, such as https://id.example.com:8443; as a list in JSON. */}}
{{- define "gatehouse.peers" -}}
{{- $config := index .root.Values .service.key "config" }}
{{- /* Nothing asks an issuer that has a jwksUrl. */}}
{{- $json := regexReplaceAll `"issuerUrl":"[^"]*",("jwksUrl":)` (toJson $config) "${1}" }}
{{- $members := regexFindAll `"(issuerUrl|jwksUrl|directory|authority|endpoint|metadataEndpoint|server)":"[^"]+"` $json -1 }}
{{- /* Other members `url` are addresses of apps. */}}
{{- $members = concat $members (regexFindAll `"url":"[^"]+"` (toJson $config.events) -1) }}
{{- range $config.portals }}
{{- $members = concat $members (regexFindAll `"url":"[^"]+"` (toJson .providers) -1) }}
{{- range .resources }}
{{- range .authorizationServers }}
{{- if not (contains (printf `"issuerUrl":%s,"jwksUrl":` (toJson .)) (toJson $config)) }}{{ $members = append $members . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- range ($config.events | default dict).receivers }}
{{- if and (eq .type "email") (not (kindIs "string" .port)) }}
{{- $members = append $members (printf (ternary "[%s]:%d" "%s:%d" (contains ":" .host)) .host (int (.port | default 465))) }}
{{- end }}
{{- end }}
{{- $peers := list }}
{{- range $members }}
{{- $text := regexReplaceAll `^"[A-Za-z]+":"|"$` . "" }}
{{- with regexFind `^((?i:https?)://)?(\[[^]]*\]|[^/?#:]+):[0-9]+([/?#]|$)` $text }}{{ $peers = append $peers (regexReplaceAll "[/?#]$" . "") }}{{ end }}
{{- end }}
{{- toJson $peers }}
{{- end }}

{{- define "gatehouse.openPorts" -}}
{{- $ports := list "53" }}
{{- range .root.Values.networkPolicy.egressPorts }}{{ $ports = append $ports (toString (int .)) }}{{ end }}
{{- if .service.values.storage.databaseUrl }}{{ $ports = append $ports "5432" }}{{ end }}
{{- if .service.token }}{{ $ports = append $ports "6443" }}{{ end }}
{{- toJson $ports }}
{{- end }}

{{- define "gatehouse.check.autoscaling" -}}
{{- $key := .service.key }}
{{- $values := .service.values }}
{{- $scaling := $values.autoscaling }}
{{- if $scaling.enabled }}
{{- if not $values.storage.databaseUrl }}
{{- fail (printf "%s.autoscaling needs PostgreSQL, since a folder is for one pod: name a database in %s.storage.databaseUrl" $key $key) }}
{{- end }}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) }}
{{- fail (printf "%s.autoscaling.minReplicas is %d, which is more than maxReplicas, %d" $key (int $scaling.minReplicas) (int $scaling.maxReplicas)) }}
{{- end }}
{{- $requests := $values.resources.requests | default dict }}
{{- range $resource, $target := dict "cpu" $scaling.targetCPUUtilizationPercentage "memory" $scaling.targetMemoryUtilizationPercentage }}
{{- if and $target (not (index $requests $resource)) }}
{{- fail (printf "%s.autoscaling compares the use of %s with what is requested: set %s.resources.requests.%s" $key $resource $key $resource) }}
{{- end }}
{{- end }}
{{- if not (or $scaling.targetCPUUtilizationPercentage $scaling.targetMemoryUtilizationPercentage $scaling.metrics) }}
{{- fail (printf "%s.autoscaling has nothing to go by: set targetCPUUtilizationPercentage, or name metrics" $key) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gatehouse.check.forwardAuth" -}}
{{- $values := .Values.forwardAuth }}
{{- $server := $values.config.server | default dict }}
{{- range $part := list "domains" "portals" }}
{{- if not (index $values.config $part) }}
{{- fail (printf "forwardAuth.config.%s is empty: add your %s (docs/kubernetes.md), or set forwardAuth.enabled to false" $part $part) }}
{{- end }}
{{- end }}
{{- if not $values.sessionKeys }}
{{- fail "forwardAuth.sessionKeys is empty: name a key of a Secret with 32 or more random characters, as { secretName: …, key: … }" }}
{{- end }}
{{- if and (not (kindIs "slice" $server.trustedProxies)) (not ($server.tls | default dict).clientCaFile) }}
{{- fail "forwardAuth.config.server.trustedProxies is missing: list the network of the pods of your gateway, such as 10.42.0.0/16, since other addresses may not ask" }}
{{- end }}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.gatewayNamespaces) }}
{{- fail "networkPolicy.gatewayNamespaces is empty, so that no gateway could ask forward-auth: list the namespaces of its pods, or set networkPolicy.enabled to false" }}
{{- end }}
{{- end }}

{{- define "gatehouse.check.certService" -}}
{{- $values := .Values.certService }}
{{- if $values.ingress.enabled }}
{{- if not (or $values.ingress.hosts $values.ingress.challenges) }}
{{- fail "certService.ingress.hosts is empty: name the hosts at which cert-service is reached, or set certService.ingress.challenges to true" }}
{{- end }}
{{- if and $values.ingress.challenges (not $values.plainHttp) }}
{{- fail "certService.ingress.challenges needs certService.plainHttp: true, the port that answers challenges" }}
{{- end }}
{{- end }}
{{- $gateway := .Values.gateway }}
{{- if not $values.masterKey }}
{{- fail "certService.masterKey is empty: name a key of a Secret with 32 random bytes in base64, as { secretName: …, key: … }, or set certService.enabled to false" }}
{{- end }}
{{- if not $values.config.auth }}
{{- fail "certService.config.auth is missing: say who may ask for certificates (docs/machine-callers.md)" }}
{{- end }}
{{- if and $gateway.enabled $gateway.certHosts (eq $gateway.certTls "reencrypt") (not $gateway.certRootConfigMap) }}
{{- fail "gateway.certRootConfigMap is empty: name a ConfigMap with the root of cert-service in the key ca.crt, so that the gateway can verify it" }}
{{- end }}
{{- if and $gateway.enabled $gateway.challengeParentRefs (not $values.plainHttp) }}
{{- fail "gateway.challengeParentRefs needs certService.plainHttp: true, the port that answers challenges" }}
{{- end }}
{{- end }}
