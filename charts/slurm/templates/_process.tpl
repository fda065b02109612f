{{- /* The settings of each process's port 8080: TLS and a token for metrics, if values name the Secret with both. */}}
{{- define "slurm.http" -}}
http: {port: 8080{{ if .Values.metricsSecret }}, secretFolder: {{ include "sunkpy.metricsFolder" . }}{{ end }}}
{{- end }}

{{- /* Settings that syncer and scheduler have in common. Call with (dict "root" $ "part" … "user" … ["reader" …] "values" …). */}}
{{- define "slurm.commonConfig" -}}
cluster: {{ include "slurm.cluster" .root | quote }}
namespace: {{ .root.Release.Namespace | quote }}
slurm:
  url: http://{{ .root.Release.Name }}-slurmrestd:6820
  version: auto
  user: {{ .user }}
  {{- with .reader }}
  reader: {{ . }}
  {{- end }}
  jwtKeyFile: /keys/jwt.key
leaderElection:
  enabled: true
  leaseName: {{ .root.Release.Name }}-{{ .part }}
  namespace: {{ .root.Release.Namespace | quote }}
{{ include "slurm.http" .root }}
log: {level: {{ .values.logLevel }}, format: json}
pollSeconds: {{ .values.pollSeconds }}
{{- end }}

{{- define "slurm.syncerConfig" -}}
{{ include "slurm.commonConfig" (dict "root" $ "part" "syncer" "user" "slurm" "values" .Values.syncer) }}
metrics: {{ toJson .Values.syncer.metrics }}
potentialConfigMap: {{ .Release.Name }}-potential
{{- with include "slurm.idleChecks" . | fromYaml }}
idleChecks: {partition: sunkpy-verify, nodeSets: {{ toJson . }}}
{{- end }}
{{- with include "slurm.topologyConfig" . }}
topology: {{ . }}
{{- end }}
{{- end }}

{{- /* The partition of pods that name none: that of the scheduler's values, or else Slurm's default partition. */}}
{{- define "slurm.defaultPartition" -}}
{{- $named := list (dict "by" "scheduler.defaultPartition" "partitions" (splitList "," .Values.scheduler.defaultPartition)) }}
{{- range $at, $rule := .Values.scheduler.access }}
{{- $named = append $named (dict "by" (printf "scheduler.access[%d].partitions" $at) "partitions" $rule.partitions) }}
{{- end }}
{{- range $rule := $named }}{{ range $rule.partitions }}
{{- if not (or (has . (list "" "*")) (hasKey $.Values.partitions .)) }}{{ fail (printf "%s: there is no partition %s; partitions has %s" $rule.by . (keys $.Values.partitions | sortAlpha | join ", ")) }}{{ end }}
{{- end }}{{ end }}
{{- if .Values.scheduler.defaultPartition }}{{ .Values.scheduler.defaultPartition }}{{ else -}}
{{- range $name, $partition := .Values.partitions }}{{ if ($partition | default dict).default }}{{ $name }}{{ end }}{{ end -}}
{{- end }}
{{- end }}

{{- /* The longest grace period, in seconds, of a pod whose job has lost the node. */}}
{{- define "slurm.longestGrace" -}}
{{- $epilog := int .Values.hooks.epilogTimeoutSeconds }}
{{- $most := int (sub $epilog (min 30 (div (add1 $epilog) 2))) }}
{{- $named := list (dict "name" "hooks.longestGraceSeconds" "seconds" .Values.hooks.longestGraceSeconds) }}
{{- range $at, $rule := .Values.scheduler.access }}
{{- $named = append $named (dict "name" (printf "scheduler.access[%d].longestGraceSeconds" $at) "seconds" ($rule.longestGraceSeconds | default 0)) }}
{{- end }}
{{- range $partition, $values := .Values.partitions }}
{{- $named = append $named (dict "name" (printf "partitions.%s.longestGraceSeconds" $partition) "seconds" (($values | default dict).longestGraceSeconds | default 0)) }}
{{- end }}
{{- range $named }}
{{- if gt (int .seconds) $most }}{{ fail (printf "%s: %d is too long: the Epilog gives up after %d s, and the kubelet needs time to remove a pod. Set at most %d, or hooks.epilogTimeoutSeconds to at least %d" .name (int .seconds) $epilog $most (add .seconds 30)) }}{{ end }}
{{- end }}
{{- int .Values.hooks.longestGraceSeconds | default (min 300 $most) }}
{{- end }}

{{- /* The partitions with a NodeSet for which the operator asks autoscalers: pods do not ask them again. */}}
{{- define "slurm.growingPartitions" -}}
{{- $grows := list }}
{{- range $name, $set := include "slurm.nodeSets" . | fromYaml }}
{{- if not (has (dig "growth" "ask" "none" ($set | default dict)) (list "none" "")) }}{{ $grows = append $grows $name }}{{ end }}
{{- end }}
{{- $found := list }}
{{- range $name, $partition := .Values.partitions }}
{{- $sets := ($partition | default dict).nodeSets | default (list "ALL") }}
{{- range $set := $grows }}{{ if or (has $set $sets) (has "ALL" $sets) }}{{ $found = append $found $name }}{{ end }}{{ end }}
{{- end }}
{{- uniq $found | toJson }}
{{- end }}

{{- define "slurm.schedulerConfig" -}}
{{- $graces := dict }}
{{- range $partition, $values := .Values.partitions }}
{{- with ($values | default dict).longestGraceSeconds }}{{ $_ := set $graces $partition (int .) }}{{ end }}
{{- end }}
{{ include "slurm.commonConfig" (dict "root" $ "part" "scheduler" "user" "k8s" "reader" "slurm" "values" .Values.scheduler) }}
schedulerName: {{ include "slurm.schedulerName" . | quote }}
aliases: {{ toJson .Values.scheduler.aliases }}
workloads: {{ toJson .Values.scheduler.workloads }}
suspendOwners: {{ .Values.scheduler.suspendOwners }}
immediateAllocation: {{ .Values.scheduler.immediateAllocation }}
largestGang: {{ .Values.scheduler.largestGang }}
{{- $share := int .Values.scheduler.namespaceShare }}
jobsPerNamespace: {{ if lt $share 100 }}{{ max 1 (div (mul (int (.Values.slurmConfig.conf.MaxJobCount | default 10000)) $share) 100) }}{{ else }}0{{ end }}
daemonSetNamespaces: {{ toJson .Values.scheduler.daemonSetNamespaces }}
switchLabel: {{ .Values.scheduler.switchLabel | quote }}
defaultPartition: {{ include "slurm.defaultPartition" . | quote }}
access: {{ toJson .Values.scheduler.access }}
annotatedAccess: {{ .Values.scheduler.annotatedAccess }}
growingPartitions: {{ include "slurm.growingPartitions" . }}
{{- if include "slurm.privateJobs" . }}
privateJobs: true
{{- end }}
gpuResources: {{ toJson .Values.scheduler.gpuResources }}
deviceClasses: {{ toJson .Values.scheduler.deviceClasses }}
kubeletAccount: {{ .Release.Name }}-kubelets
gpuSharing: {{ .Values.scheduler.gpuSharing }}
pluginResource: {{ .Values.scheduler.devicePlugin.resource }}
hooks: {port: 8000, url: {{ include "slurm.hooksUrl" . | quote }}, audience: sunkpy-hooks, epilogTimeoutSeconds: {{ .Values.hooks.epilogTimeoutSeconds }}, longestGraceSeconds: {{ include "slurm.longestGrace" . }}, longestGraceSecondsIn: {{ toJson $graces }}}
{{- end }}

{{- define "slurm.devicePluginConfig" -}}
{{- $plugin := .Values.scheduler.devicePlugin }}
{{ include "slurm.http" . }}
log: {level: {{ .Values.scheduler.logLevel }}, format: json}
schedulers: {{ prepend .Values.scheduler.aliases (include "slurm.schedulerName" .) | uniq | toJson }}
resource: {{ $plugin.resource }}
cdiKind: {{ $plugin.cdiKind | quote }}
pretend: {{ int $plugin.pretend }}
{{- end }}

{{- define "slurm.accountsConfig" -}}
{{ include "slurm.commonConfig" (dict "root" $ "part" "accounts" "user" "slurm" "values" .Values.accounts) }}
wanted: {{ toJson .Values.accounts.wanted }}
isGuest: {{ include "slurm.isGuest" . | eq "true" }}
{{- end }}

{{- define "slurm.loginsConfig" -}}
namespace: {{ .Release.Namespace | quote }}
leaderElection: {leaseName: {{ .Release.Name }}-logins}
{{ include "slurm.http" . }}
log: {level: {{ .Values.login.perUser.process.logLevel }}, format: json}
selector: app.kubernetes.io/name=slurm,app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=own-login
people:
  {{- range $person, $login := include "slurm.ownLogins" . | fromYaml }}
  {{ $person | quote }}: {statefulSet: {{ $login.name }}, stops: {{ gt (int $login.values.idleMinutes) 0 }}}
  {{- end }}
{{- end }}

{{- /* The Deployment of a sunkpy process. Call with (dict "root" $ "part" … "values" … "config" text "ports" dict
["strategy" "Recreate"] ["keyless" true] ["args" list] ["token" user]). With `token` another container of the pod has the key, and
makes tokens for that Slurm user from it. */}}
{{- define "slurm.process" -}}
{{- $labels := dict "root" .root "part" .part -}}
{{- $name := printf "%s-%s" .root.Release.Name .part -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  labels: {{- include "slurm.labels" $labels | nindent 4 }}
spec:
  replicas: {{ .values.replicas }}
  {{- with .strategy }}
  strategy: {type: {{ . }}}
  {{- end }}
  selector:
    matchLabels: {{- include "slurm.selector" $labels | nindent 6 }}
  template:
    metadata:
      labels: {{- include "slurm.selector" $labels | nindent 8 }}
      annotations:
        checksum/config: {{ .config | sha256sum }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "slurm.controlPlacement" (dict "root" .root "values" .values) | nindent 6 }}
      serviceAccountName: {{ $name }}
      terminationGracePeriodSeconds: 10
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: {{ .part }}
          image: {{ .root.Values.images.sunkpy }}
          imagePullPolicy: {{ .root.Values.imagePullPolicy }}
          args: {{ concat (list .part "--config=/etc/sunkpy/config.yaml") (.args | default list) | toJson }}
          env:
            - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
            - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
          securityContext: {{- include "sunkpy.locked" .root | nindent 12 }}
          ports:
            - {name: http, containerPort: 8080}
            {{- range $port, $number := .ports }}
            - {name: {{ $port }}, containerPort: {{ $number }}}
            {{- end }}
          startupProbe:
            httpGet: {path: /healthz, port: http, scheme: {{ include "sunkpy.scheme" .root }}}
            periodSeconds: 1
            failureThreshold: 600
          livenessProbe:
            httpGet: {path: /healthz, port: http, scheme: {{ include "sunkpy.scheme" .root }}}
            periodSeconds: 10
            timeoutSeconds: 5
          readinessProbe:
            httpGet: {path: /readyz, port: http, scheme: {{ include "sunkpy.scheme" .root }}}
            periodSeconds: 5
            timeoutSeconds: 5
          resources: {{- toYaml .values.resources | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/sunkpy, readOnly: true}
            {{- if .root.Values.metricsSecret }}
            {{- include "sunkpy.metricsMount" .root | nindent 12 }}
            {{- end }}
            {{- if not .keyless }}
            - {name: keys, mountPath: /keys, readOnly: true}
            {{- end }}
            {{- if .token }}
            - {name: token, mountPath: /run/slurm, readOnly: true}
        - name: token
          image: {{ .root.Values.images.sunkpy }}
          imagePullPolicy: {{ .root.Values.imagePullPolicy }}
          args: [slurm-token, --key-file=/keys/jwt.key, --user={{ .token }}, --file=/run/slurm/token, --page-key-file=/run/slurm/page.key]
          securityContext: {{- include "sunkpy.locked" .root | nindent 12 }}
          resources:
            requests: {cpu: 1m, memory: 32Mi}
            limits: {memory: 128Mi}
          volumeMounts:
            - {name: keys, mountPath: /keys, readOnly: true}
            - {name: token, mountPath: /run/slurm}
            {{- end }}
      volumes:
        - {name: config, configMap: {name: {{ $name }}}}
        {{- with .root.Values.metricsSecret }}
        - {name: metrics, secret: {secretName: {{ . | quote }}, defaultMode: 0440}}
        {{- end }}
        {{- if .token }}
        - {name: token, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
        {{- end }}
        {{- if or .token (not .keyless) }}
        - {name: keys, secret: {secretName: {{ include "slurm.jwtSecret" .root | quote }}, defaultMode: 0440}}
        {{- end }}
{{- end }}
