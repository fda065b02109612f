{{- $fixed := tpl (.Files.Get "files/slurmdbd-fixed.conf.tpl") . }}
{{- $instead := dict "storagepass" "accounting.database.existingSecret" "storagepassscript" "accounting.database.existingSecret" "storagebackuphost" "accounting.database.external" }}
{{- $fixed }}
{{- range $key, $value := include "slurm.confMap" (dict "path" "accounting.slurmdbd.conf" "wanted" .Values.accounting.slurmdbd.conf "fixed" $fixed "instead" $instead) | fromYaml }}
{{ $key }}={{ $value }}
{{- end }}
