{{- /* Whether a container beside slurmctld and MariaDB measures how full the volumes are; empty if not. */}}
{{- define "slurm.watchesVolumes" -}}
{{- $isScraped := or .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- if has .Values.volumeMetrics.when (ternary (list "always" "scraped") (list "always") $isScraped) }}true{{ end }}
{{- end }}

{{- /* That container. It reads as the user who owns the files, and cannot write. It has no probes, so that a slow metric ends nothing.
Call with (dict "root" $ "settings" … "volumes" {name of the pod's volume: its claim}). */}}
{{- define "slurm.volumesContainer" -}}
{{- if include "slurm.watchesVolumes" .root }}
{{- $folders := dict }}
{{- range $name, $claim := .volumes }}{{ $_ := set $folders $claim (printf "/volumes/%s" $name) }}{{ end }}
{{- $http := include "slurm.http" .root | fromYaml }}
{{- $settings := merge (dict "volumes" $folders) $http .settings }}
- name: volumes
  image: {{ .root.Values.images.sunkpy }}
  imagePullPolicy: {{ .root.Values.imagePullPolicy }}
  args: [volumes, {{ printf "--settings=%s" (toJson $settings) | quote }}]
  securityContext: {{- include "sunkpy.locked" .root | nindent 4 }}
  ports: [{name: http, containerPort: 8080}]
  resources: {{- toYaml .root.Values.volumeMetrics.resources | nindent 4 }}
  volumeMounts:
    {{- if .root.Values.metricsSecret }}
    {{- include "sunkpy.metricsMount" .root | nindent 4 }}
    {{- end }}
    {{- range $name, $_ := .volumes }}
    - {name: {{ $name }}, mountPath: /volumes/{{ $name }}, readOnly: true}
    {{- end }}
{{- end }}
{{- end }}

{{- /* The volume with the Secret of metrics, which this container adds to its pod. */}}
{{- define "slurm.volumesSecret" -}}
{{- if and (include "slurm.watchesVolumes" .) .Values.metricsSecret }}
- {name: metrics, secret: {secretName: {{ .Values.metricsSecret | quote }}, defaultMode: 0440}}
{{- end }}
{{- end }}

{{- /* Call with (dict "of" … "name" as copy-backup calls them "values" of the backups). */}}
{{- define "slurm.watchedBackups" -}}
backups: {of: {{ .of }}, folder: /volumes/backup, name: {{ .name }}, lateAfterSeconds: {{ mul 3600 (int .values.lateAfterHours) }}}
{{- end }}
