{{- /* The same in all charts that have it: port 8080 of sunkpy's processes. Values may name a Secret with its certificate and
token. */}}
{{- define "sunkpy.scheme" }}{{ if .Values.metricsSecret }}HTTPS{{ else }}HTTP{{ end }}{{ end }}

{{- define "sunkpy.metricsFolder" }}/metrics-secret{{ end }}

{{- define "sunkpy.metricsMount" -}}
- {name: metrics, mountPath: {{ include "sunkpy.metricsFolder" . }}, readOnly: true}
{{- end }}

{{- /* How Prometheus scrapes that port. Call with (dict "root" $ "interval" …). */}}
{{- define "sunkpy.metricsEndpoint" -}}
port: http
path: /metrics
interval: {{ .interval }}
honorLabels: true
{{- with .root.Values.metricsSecret }}
scheme: https
authorization: {credentials: {name: {{ . | quote }}, key: token}}
tlsConfig: {serverName: sunkpy-metrics, ca: {secret: {name: {{ . | quote }}, key: ca.crt}}}
{{- end }}
{{- end }}

{{- /* A headless Service for each part, and a ServiceMonitor for all. Call with (dict "root" $ "name" … "labels" … "selector" those
of the Services "parts" {name: selector}); all but name are YAML. */}}
{{- define "sunkpy.serviceMonitor" -}}
{{- $values := .root.Values.serviceMonitor }}
{{- if .root.Values.podMonitor.enabled }}{{ fail "serviceMonitor and podMonitor: enable only one of them, or Prometheus gets each series twice" }}{{ end }}
{{- range $part, $selector := .parts }}
apiVersion: v1
kind: Service
metadata:
  name: {{ $part }}-metrics
  labels: {{- $.labels | nindent 4 }}
spec:
  clusterIP: None
  selector: {{- $selector | nindent 4 }}
  ports: [{name: http, port: 8080, targetPort: http}]
---
{{- end }}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name | quote }}
  labels:
    {{- .labels | nindent 4 }}
    {{- with $values.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels: {{- .selector | nindent 6 }}
  endpoints:
    - {{- include "sunkpy.metricsEndpoint" (dict "root" .root "interval" $values.interval) | nindent 6 }}
{{- end }}
