{{- define "sunkpy.name" -}}
{{ .Release.Name }}-operator
{{- end }}

{{- define "sunkpy.labels" -}}
app.kubernetes.io/name: sunkpy
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: sunkpy
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sunkpy.selector" -}}
app.kubernetes.io/name: sunkpy
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "sunkpy.config" -}}
namespace: {{ .Release.Namespace | quote }}
resyncSeconds: {{ .Values.resyncSeconds }}
slurmDrains:
  policy: {{ .Values.slurmDrains.policy }}
  maxPercent: {{ .Values.slurmDrains.maxPercent }}
{{- include "sunkpy.checkSignals" . }}
health: {{ toJson .Values.health }}
lock:
  key: {{ ternary .Values.lock.key "" .Values.lock.enabled | quote }}
  dryRun: {{ .Values.lock.dryRun }}
leaderElection:
  leaseName: {{ include "sunkpy.name" . }}
{{- if .Values.metricsSecret }}
http: {secretFolder: {{ include "sunkpy.metricsFolder" . }}}
{{- end }}
log:
  level: {{ .Values.log.level }}
  format: {{ .Values.log.format }}
{{- end }}

{{- /* What the schema cannot say of signals: the operator would not start on it. */}}
{{- define "sunkpy.checkSignals" -}}
{{- range $name, $rule := .Values.health.signals }}
{{- $path := printf "health.signals.%s" $name }}
{{- if and $rule.label (not $rule.bad) }}{{ fail (printf "%s.bad: list the values of label %s that mean that the Node is sick" $path $rule.label) }}{{ end }}
{{- with $rule.remedy }}
{{- if not (hasKey $.Values.health.remedies .) }}{{ fail (printf "%s.remedy: health.remedies has no %s" $path .) }}{{ end }}
{{- if eq ($rule.cure | default (ternary "person" "clear" (hasKey $rule "slurmReason"))) "person" }}
{{- fail (printf "%s.cure: set clear or reboot, which says how the operator knows that remedy %s has helped" $path .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sunkpy.priorityClass" -}}
{{ .Values.priorityClassName | default (ternary (printf "%s-%s" .Release.Namespace (include "sunkpy.name" .)) "" .Values.priorityClass.create) }}
{{- end }}

{{- /* A drain of every node in Slurm cordons every node, and only the operator can take that back: it must find a place.
A dead node is left after a minute, unless values say otherwise. */}}
{{- define "sunkpy.tolerations" -}}
{{- $said := list }}
{{- range concat (.Values.tolerations | default list) (.Values.common.podSpec.tolerations | default list) }}{{ $said = append $said (.key | default "") }}{{ end -}}
- {key: node.kubernetes.io/unschedulable, operator: Exists, effect: NoSchedule}
- {key: sunkpy.dev/drain, operator: Exists, effect: NoSchedule}
- {key: {{ .Values.lock.key | quote }}, operator: Exists, effect: NoSchedule}
{{- range list "not-ready" "unreachable" }}
{{- $key := printf "node.kubernetes.io/%s" . }}
{{- if not (or (has $key $said) (has "" $said)) }}
- {key: {{ $key }}, operator: Exists, effect: NoExecute, tolerationSeconds: 60}
{{- end }}
{{- end }}
{{- with .Values.tolerations }}
{{ toYaml . }}
{{- end }}
{{- end }}
