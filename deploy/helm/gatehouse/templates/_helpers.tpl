{{- define "gatehouse.name" -}}
{{ .Values.nameOverride | default .Chart.Name }}
{{- end }}

{{- define "gatehouse.fullname" -}}
{{- $name := include "gatehouse.name" . }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}{{ .Release.Name }}
{{- else }}{{ .Release.Name }}-{{ $name }}
{{- end }}
{{- end }}

{{- define "gatehouse.nameOf" -}}
{{ printf "%s-%s" (include "gatehouse.fullname" .root | trunc 40 | trimSuffix "-") .component }}
{{- end }}

{{/* Labels that select the pods of one service. */}}
{{- define "gatehouse.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gatehouse.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "gatehouse.labels" -}}
{{ include "gatehouse.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gatehouse
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "gatehouse.metadata" -}}
name: {{ .name | default (include "gatehouse.nameOf" .) }}
namespace: {{ .root.Release.Namespace }}
labels: {{- include "gatehouse.labels" . | nindent 2 }}
{{- end }}

{{- define "gatehouse.serviceAccount" -}}
{{ .service.values.serviceAccount.name | default (include "gatehouse.nameOf" .) }}
{{- end }}

{{- define "gatehouse.image" -}}
{{- printf "%s/%s" .root.Values.image.registry .component }}{{ with .service.values.imageDigest }}@{{ . }}{{ else }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The value of a service by this name, else that of both services; as YAML. Labels and annotations add up. */}}
{{- define "gatehouse.podValue" -}}
{{- $own := index .service.values .value }}
{{- $shared := index .root.Values .value }}
{{- if has .value (list "podLabels" "podAnnotations") }}
{{- $own = merge (deepCopy ($own | default dict)) ($shared | default dict) }}
{{- end }}
{{- with $own | default $shared }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* Whether there may be several pods. */}}
{{- define "gatehouse.isSeveral" -}}
{{- if or .autoscaling.enabled (gt (int .replicas) 1) }}true{{ end }}
{{- end }}

{{/* The names by which pods reach a Service, as a list in YAML. */}}
{{- define "gatehouse.serviceNames" -}}
{{- $name := include "gatehouse.nameOf" . }}
{{- $full := printf "%s.%s" $name .root.Release.Namespace }}
{{- list $name $full (printf "%s.svc" $full) (printf "%s.svc.%s" $full .root.Values.clusterDomain) | toYaml }}
{{- end }}

{{/* One of the two services, as YAML: what the templates need to know of it. */}}
{{- define "gatehouse.forwardAuth" -}}
{{- $values := .Values.forwardAuth }}
{{- $config := deepCopy $values.config }}
{{- $server := dict "host" .Values.listenHost }}
{{- $ports := dict "http" 4181 "metrics" 9465 }}
{{- if $values.grpc }}
{{- $_ := set $server "grpc" (dict "host" .Values.listenHost "port" 4182) }}
{{- $_ := set $ports "grpc" 4182 }}
{{- end }}
{{- $own := dict "server" $server "metrics" (dict "host" .Values.listenHost "port" 9465) }}
{{- $files := deepCopy $values.secretFiles }}
{{- $keys := list }}
{{- range $at, $key := $values.sessionKeys }}
{{- $file := printf "session-key-%d" $at }}
{{- $_ := set $files $file $key }}
{{- $keys = append $keys (dict "secretFile" (printf "/run/secrets/gatehouse/%s" $file)) }}
{{- end }}
{{- if $keys }}
{{- $_ := set $own "session" (dict "keys" $keys) }}
{{- end }}
{{- $storage := dict "path" "/var/lib/gatehouse/data" }}
{{- if $values.storage.databaseUrl }}
{{- $_ := set $files "database-url" $values.storage.databaseUrl }}
{{- $storage = dict "urlFile" "/run/secrets/gatehouse/database-url" }}
{{- end }}
{{- $_ := set $own "storage" $storage }}
{{- $scheme := ternary "HTTPS" "HTTP" (hasKey ($config.server | default dict) "tls") }}
{{- dict "component" "forward-auth" "key" "forwardAuth" "values" $values "ports" $ports "scheme" $scheme "files" $files "config" (merge $config $own) "token" $values.serviceAccountToken "args" (list "serve") | toYaml }}
{{- end }}

{{- define "gatehouse.certService" -}}
{{- $values := .Values.certService }}
{{- $config := deepCopy $values.config }}
{{- $names := include "gatehouse.serviceNames" (dict "root" . "component" "cert-service") | fromYamlArray }}
{{- $given := (($config.server | default dict).names | default list) }}
{{- $server := dict "host" .Values.listenHost "names" (concat $names (ternary .Values.gateway.certHosts list .Values.gateway.enabled) (ternary $values.ingress.hosts list $values.ingress.enabled) $given | uniq) }}
{{- $ports := dict "https" 7401 "metrics" 9464 }}
{{- if $values.plainHttp }}
{{- $_ := set $server "plainHttp" (dict "host" .Values.listenHost "port" 7480) }}
{{- $_ := set $ports "plain-http" 7480 }}
{{- end }}
{{- $files := deepCopy $values.secretFiles }}
{{- $storage := dict "path" "/var/lib/gatehouse/data" }}
{{- $args := list "serve" }}
{{- if $values.storage.databaseUrl }}
{{- $_ := set $files "database-url" $values.storage.databaseUrl }}
{{- $storage = dict "urlFile" "/run/secrets/gatehouse/database-url" }}
{{- else if or (eq (toString $values.newStore) "true") (and (eq (toString $values.newStore) "auto") .Release.IsInstall) }}
{{- $args = append $args "--new" }}
{{- end }}
{{- if $values.masterKey }}
{{- $_ := set $files "master-key" $values.masterKey }}
{{- $_ := set $storage "masterKeyFile" "/run/secrets/gatehouse/master-key" }}
{{- end }}
{{- $own := dict "server" $server "storage" $storage "metrics" (dict "host" .Values.listenHost "port" 9464) }}
{{- $scheme := ternary "HTTP" "HTTPS" (eq (toString (($config.server | default dict).tls)) "insecure") }}
{{- if $config.server }}
{{- $_ := unset $config.server "names" }}
{{- end }}
{{- dict "component" "cert-service" "key" "certService" "values" $values "ports" $ports "scheme" $scheme "files" $files "config" (merge $config $own) "token" $values.serviceAccountToken "args" $args | toYaml }}
{{- end }}

{{/* The services that are enabled, by name. */}}
{{- define "gatehouse.services" -}}
{{- include "gatehouse.checkEmpty" . }}
{{- $services := dict }}
{{- if .Values.forwardAuth.enabled }}
{{- $_ := set $services "forward-auth" (include "gatehouse.forwardAuth" . | fromYaml) }}
{{- end }}
{{- if .Values.certService.enabled }}
{{- $_ := set $services "cert-service" (include "gatehouse.certService" . | fromYaml) }}
{{- end }}
{{- toYaml $services }}
{{- end }}

{{/* The hosts of the sign-in pages, without ports, as a list in YAML. */}}
{{- define "gatehouse.authHosts" -}}
{{- $hosts := list }}
{{- range .Values.forwardAuth.config.domains }}
{{- $hosts = append $hosts (regexReplaceAll "^https?://|:[0-9]+$" (.authHost | default .domain) "") }}
{{- end }}
{{- uniq $hosts | toYaml }}
{{- end }}
