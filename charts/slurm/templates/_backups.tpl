{{- /* Address of the bucket for backups; empty without one. Both backups share it, and slurmctld's is there without accounting. */}}
{{- define "slurm.s3" -}}
{{- $s3 := .Values.s3 }}
{{- if or $s3.endpoint $s3.bucket $s3.existingSecret }}
{{- range list "endpoint" "bucket" "existingSecret" }}
{{- if not (get $s3 .) }}{{ fail (printf "s3: endpoint, bucket and existingSecret belong together: set s3.%s" .) }}{{ end }}
{{- end }}
{{- else if eq .Values.restore.from "s3" }}
{{- fail "restore.from is s3, and there is no bucket: set s3.endpoint, s3.bucket and s3.existingSecret" }}
{{- end }}
{{- $s3.endpoint }}
{{- end }}
{{- define "slurm.s3Port" -}}
{{- regexFind ":[0-9]+$" .Values.s3.endpoint | trimPrefix ":" | default (ternary "443" "80" (hasPrefix "https:" .Values.s3.endpoint)) }}
{{- end }}

{{- /* The environment with which copy-backup reaches the bucket. Call with (dict "root" $ "prefix" …). */}}
{{- define "slurm.s3Env" -}}
{{- $s3 := .root.Values.s3 }}
- {name: SUNKPY_S3_ENDPOINT, value: {{ $s3.endpoint | quote }}}
- {name: SUNKPY_S3_BUCKET, value: {{ $s3.bucket | quote }}}
- {name: SUNKPY_S3_PREFIX, value: {{ .prefix | default $s3.prefix | default (printf "%s/%s/" .root.Release.Namespace .root.Release.Name) | quote }}}
- {name: SUNKPY_S3_REGION, value: {{ $s3.region | quote }}}
{{- end }}
{{- define "slurm.s3Volume" -}}
- {name: s3, secret: {secretName: {{ .Values.s3.existingSecret | quote }}, defaultMode: 0440}}
{{- end }}

{{- /* An init container that fills an empty volume from a backup before the volume is used. Call with (dict "root" $ "image" … "command" list "env" list
"mounts" list "backup" which is restored). */}}
{{- define "slurm.restore" -}}
{{- $restore := .root.Values.restore }}
{{- $mounts := append .mounts (ternary (dict "name" "s3" "mountPath" "/s3" "readOnly" true) (dict "name" "backup" "mountPath" "/backup" "readOnly" true) (eq $restore.from "s3")) }}
- name: restore
  image: {{ .image }}
  imagePullPolicy: {{ .root.Values.imagePullPolicy }}
  command: {{ concat (list "/usr/bin/tini" "--") .command | toJson }}
  env:
    - {name: SUNKPY_RESTORE_FROM, value: {{ $restore.from | quote }}}
    - {name: SUNKPY_RESTORE, value: {{ .backup | quote }}}
    {{- range .env }}
    - {{ toJson . }}
    {{- end }}
    {{- if eq $restore.from "s3" }}
    {{- include "slurm.s3Env" (dict "root" .root "prefix" $restore.prefix) | nindent 4 }}
    {{- end }}
  securityContext: {{- include "sunkpy.locked" .root | nindent 4 }}
  resources: {requests: {cpu: 10m, memory: 64Mi}}
  volumeMounts: {{- toYaml $mounts | nindent 4 }}
{{- end }}
{{- /* The volume of this init container, unless the pod has the volume of the backups anyway. Call with (dict "root" $ "of" values with its key backup). */}}
{{- define "slurm.restoreVolume" -}}
{{- if eq .root.Values.restore.from "s3" }}
{{- include "slurm.s3Volume" .root }}
{{- else if and .root.Values.restore.from (not .of.backup.enabled) }}
{{- fail "restore.from is volume: enable slurmctld.backup and accounting.backup, because the restore reads their volumes" }}
{{- end }}
{{- end }}

{{- /* The claim with slurmctld's state. Refuses one that the pod of a backup cannot mount while slurmctld runs. */}}
{{- define "slurm.stateForBackups" -}}
{{- $persistence := .Values.slurmctld.persistence }}
{{- $claim := include "slurm.sharedState" . | default (printf "state-%s-slurmctld-0" .Release.Name) }}
{{- $why := "lets only one pod mount the volume, and the pods of backups have to mount it beside slurmctld. Set" }}
{{- if and (not $persistence.existingClaim) (has "ReadWriteOncePod" $persistence.accessModes) }}
{{- fail (printf "slurmctld.persistence.accessModes: ReadWriteOncePod %s [ReadWriteOnce], or disable slurmctld.backup" $why) }}
{{- end }}
{{- if has "ReadWriteOncePod" (dig "spec" "accessModes" list (lookup "v1" "PersistentVolumeClaim" .Release.Namespace $claim | default dict)) }}
{{- fail (printf "slurmctld.persistence: PersistentVolumeClaim %s has the access mode ReadWriteOncePod, which %s slurmctld.persistence.existingClaim to a claim with ReadWriteOnce, or disable slurmctld.backup" $claim $why) }}
{{- end }}
{{- $claim }}
{{- end }}
