{{- define "sunkpy.name" -}}
{{ .Release.Name }}-operator
{{- end }}

{{- define "sunkpy.labels" -}}
app.kubernetes.io/name: sunkpy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sunkpy.selector" -}}
app.kubernetes.io/name: sunkpy
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "sunkpy.config" -}}
namespace: {{ .Release.Namespace }}
resyncSeconds: {{ .Values.resyncSeconds }}
leaderElection:
  leaseName: {{ include "sunkpy.name" . }}
log:
  level: {{ .Values.log.level }}
  format: {{ .Values.log.format }}
{{- end }}
