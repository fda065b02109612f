{{- tpl (.Files.Get "files/slurmdbd-fixed.conf.tpl") . }}
{{- range $key, $value := include "slurm.confMap" (dict "root" $ "path" "accounting.slurmdbd.conf" "wanted" .Values.accounting.slurmdbd.conf) | fromYaml }}
{{ $key }}={{ $value }}
{{- end }}
