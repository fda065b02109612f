{{- /* The same in all charts that have it: port 8080 of sunkpy's processes, where values may name a Secret with a certificate and a
token. */}}
{{- define "sunkpy.scheme" }}{{ if .Values.metricsSecret }}HTTPS{{ else }}HTTP{{ end }}{{ end }}

{{- define "sunkpy.metricsFolder" }}/metrics-secret{{ end }}

{{- define "sunkpy.metricsMount" -}}
- {name: metrics, mountPath: {{ include "sunkpy.metricsFolder" . }}, readOnly: true}
{{- end }}

{{- /* How Prometheus reads it. Call with (dict "root" $ "interval" …). */}}
{{- define "sunkpy.metricsEndpoint" -}}
port: http
path: /metrics
interval: {{ .interval }}
honorLabels: true
{{- with .root.Values.metricsSecret }}
scheme: https
authorization: {credentials: {name: {{ . }}, key: token}}
tlsConfig: {serverName: sunkpy-metrics, ca: {secret: {name: {{ . }}, key: ca.crt}}}
{{- end }}
{{- end }}
