{{- define "openldap.name" -}}{{ .Release.Name }}-openldap{{- end }}
{{- define "openldap.host" -}}{{ include "openldap.name" . }}.{{ .Release.Namespace }}.svc{{- end }}
{{- define "openldap.adminSecret" -}}{{ .Values.admin.existingSecret | default (printf "%s-admin" (include "openldap.name" .)) }}{{- end }}
{{- define "openldap.tlsSecret" -}}{{ .Values.tls.existingSecret | default (printf "%s-tls" (include "openldap.name" .)) }}{{- end }}

{{- /* Labels of every object; call with (dict "root" $ "part" "openldap"). */}}
{{- define "openldap.labels" -}}
{{ include "openldap.selector" . }}
app.kubernetes.io/part-of: sunkpy
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}
{{- define "openldap.selector" -}}
app.kubernetes.io/name: openldap
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end }}
