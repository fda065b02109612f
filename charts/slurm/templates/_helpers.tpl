{{- define "slurm.cluster" -}}{{ .Values.clusterName | default .Release.Name }}{{- end }}
{{- define "slurm.schedulerName" -}}{{ .Values.scheduler.name | default .Release.Name }}{{- end }}
{{- define "slurm.slurmSecret" -}}{{ .Values.keys.existingSlurmSecret | default (printf "%s-slurm-key" .Release.Name) }}{{- end }}
{{- define "slurm.jwtSecret" -}}{{ .Values.keys.existingJwtSecret | default (printf "%s-jwt-key" .Release.Name) }}{{- end }}
{{- define "slurm.homeClaim" -}}{{ .Values.home.existingClaim | default (printf "%s-home" .Release.Name) }}{{- end }}
{{- define "slurm.confServer" -}}{{ .Release.Name }}-slurmctld:6817{{- end }}
{{- define "slurm.hooksUrl" -}}{{ if .Values.scheduler.enabled }}http://{{ .Release.Name }}-hooks:8000{{ end }}{{- end }}

{{- /* Labels of every object; call with (dict "root" $ "part" "syncer"). */}}
{{- define "slurm.labels" -}}
{{ include "slurm.selector" . }}
app.kubernetes.io/part-of: sunkpy
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}
{{- define "slurm.selector" -}}
app.kubernetes.io/name: slurm
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- /* What all pods have in common: where they may run. Call with (dict "root" $ "values" .Values.syncer). */}}
{{- define "slurm.placement" -}}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "slurm.locked" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* A hook script: what both share, limits, its own part. Call with (dict "root" $ "name" "prolog"). */}}
{{- define "slurm.hook" -}}
#!/bin/bash
{{ .root.Files.Get "files/hooks.sh" }}
: "${SUNKPY_PROLOG_TIMEOUT_S:={{ .root.Values.hooks.prologTimeoutSeconds }}}"
: "${SUNKPY_EPILOG_TIMEOUT_S:={{ .root.Values.hooks.epilogTimeoutSeconds }}}"
: "${SUNKPY_OUTAGE_TIMEOUT_S:={{ .root.Values.hooks.outageTimeoutSeconds }}}"
: "${SUNKPY_REFUSAL_S:=30}"
: "${SUNKPY_KILL_WAIT_S:={{ .root.Values.slurmConfig.killWaitSeconds }}}"

{{ .root.Files.Get (printf "files/%s.sh" .name) }}
{{- end }}
