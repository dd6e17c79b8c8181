{{- define "gatehouse.deployment" -}}
{{- $root := .root }}
{{- $values := .service.values }}
{{- $isShared := not (empty $values.storage.databaseUrl) }}
{{- $main := ternary "http" "https" (hasKey .service.ports "http") }}
{{- $probe := dict "port" $main "scheme" .service.scheme }}
apiVersion: apps/v1
kind: Deployment
metadata: {{- include "gatehouse.metadata" . | nindent 2 }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  {{- if $isShared }}
  strategy: { type: RollingUpdate, rollingUpdate: { maxUnavailable: 0, maxSurge: 1 } }
  {{- else }}
  # The folder is for one pod at a time.
  strategy: { type: Recreate }
  {{- end }}
  selector:
    matchLabels: {{- include "gatehouse.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "gatehouse.selectorLabels" . | nindent 8 }}
        {{- with include "gatehouse.podValue" (merge (dict "value" "podLabels") .) }}{{ . | nindent 8 }}{{ end }}
      annotations:
        # A change of the configuration replaces the pods.
        checksum/config: {{ toYaml .service.config | sha256sum }}
        {{- with include "gatehouse.podValue" (merge (dict "value" "podAnnotations") .) }}{{ . | nindent 8 }}{{ end }}
    spec:
      serviceAccountName: {{ include "gatehouse.serviceAccount" . }}
      automountServiceAccountToken: {{ .service.token }}
      # Variables with the addresses of all Services of the namespace serve nobody here.
      enableServiceLinks: false
      # A service stops taking requests 5 s after its end was decided, and has 8 s to finish those it has.
      terminationGracePeriodSeconds: 30
      securityContext: {{- toYaml $root.Values.podSecurityContext | nindent 8 }}
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "gatehouse.image" . }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ toJson .service.args }}
          env:
            - { name: GATEHOUSE_CONFIG, value: /etc/gatehouse/config.yaml }
            {{- with $values.env }}{{ toYaml . | nindent 12 }}{{ end }}
          ports:
            {{- range $port, $number := .service.ports }}
            - { name: {{ $port }}, containerPort: {{ $number }} }
            {{- end }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: { drop: [ALL] }
          # A database that is starting is waited for, for 30 s.
          startupProbe:
            httpGet: {{- merge (dict "path" "/healthz") $probe | toYaml | nindent 14 }}
            periodSeconds: 2
            failureThreshold: 30
          livenessProbe:
            httpGet: {{- merge (dict "path" "/healthz") $probe | toYaml | nindent 14 }}
            timeoutSeconds: 5
            periodSeconds: 10
            failureThreshold: 6
          readinessProbe:
            httpGet: {{- merge (dict "path" "/readyz") $probe | toYaml | nindent 14 }}
            timeoutSeconds: 3
            periodSeconds: 5
            failureThreshold: 2
          lifecycle:
            # Until no proxy sends requests here any more.
            preStop: { sleep: { seconds: 5 } }
          resources: {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            - { name: config, mountPath: /etc/gatehouse, readOnly: true }
            - { name: secrets, mountPath: /run/secrets/gatehouse, readOnly: true }
            {{- if not $isShared }}
            - { name: data, mountPath: /var/lib/gatehouse }
            {{- end }}
            {{- with $values.extraVolumeMounts }}{{ toYaml . | nindent 12 }}{{ end }}
      volumes:
        - { name: config, configMap: { name: {{ include "gatehouse.nameOf" . }} } }
        - name: secrets
          projected:
            # For the group of the pod alone. The services refuse a master key that others can read.
            defaultMode: 0440
            sources:
              {{- range $file, $key := .service.files }}
              - secret: { name: {{ quote $key.secretName }}, items: [{ key: {{ $key.key | quote }}, path: {{ $file | quote }} }] }
              {{- end }}
        {{- if not $isShared }}
        - name: data
          persistentVolumeClaim: { claimName: {{ $values.storage.existingClaim | default (include "gatehouse.nameOf" .) }} }
        {{- end }}
        {{- with $values.extraVolumes }}{{ toYaml . | nindent 8 }}{{ end }}
      {{- with include "gatehouse.podValue" (merge (dict "value" "priorityClassName") .) }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if or $values.topologySpreadConstraints $root.Values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- range $values.topologySpreadConstraints | default $root.Values.topologySpreadConstraints }}
        {{- $selector := dict "matchLabels" (include "gatehouse.selectorLabels" $ | fromYaml) }}
        - {{- merge (deepCopy .) (dict "labelSelector" $selector) | toYaml | nindent 10 }}
        {{- end }}
      {{- else if include "gatehouse.isSeveral" $values }}
      topologySpreadConstraints:
        {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ $key }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "gatehouse.selectorLabels" $ | nindent 14 }}
        {{- end }}
      {{- end }}
      {{- range $value := list "nodeSelector" "tolerations" "affinity" }}
      {{- with include "gatehouse.podValue" (merge (dict "value" $value) $) }}
      {{ $value }}: {{- . | nindent 8 }}
      {{- end }}
      {{- end }}
{{- end }}
