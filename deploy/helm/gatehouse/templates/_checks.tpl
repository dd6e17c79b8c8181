{{/* Refuses values that make no service that works. What a schema can say is in values.schema.json. */}}
{{- define "gatehouse.check" -}}
{{- $root := .root }}
{{- $service := .service }}
{{- $values := $service.values }}
{{- $given := index $root.Values $service.key "config" }}
{{- $key := $service.key }}
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
{{- range $file := regexFindAll "/run/secrets/gatehouse/[-A-Za-z0-9_.]+" (toYaml $service.config) -1 | uniq }}
{{- if not (hasKey $service.files (base $file)) }}
{{- fail (printf "%s.config names %s, but no Secret is mounted there: add %s to %s.secretFiles, as { secretName: …, key: … }" $key $file (base $file) $key) }}
{{- end }}
{{- end }}
{{- if and (regexMatch "/var/run/secrets/kubernetes.io/serviceaccount/|kubernetesServiceAccount" (toYaml $service.config)) (not $service.token) }}
{{- fail (printf "%s.config reads the token of its service account, which is not mounted: set %s.serviceAccountToken to true" $key $key) }}
{{- end }}
{{- include (printf "gatehouse.check.%s" $key) $root }}
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
