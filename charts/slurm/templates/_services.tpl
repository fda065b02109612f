{{- /* Services of a site in the order in which they start, a line for each as run-services reads it. A service comes after those
that it depends on. Call with (dict "path" "compute.services" "services" …). */}}
{{- define "slurm.serviceOrder" -}}
{{- $services := .services }}
{{- $path := .path }}
{{- $placed := list }}
{{- range $_ := $services }}{{/* each round places all that can be: there are no more rounds than services */}}
{{- range $name, $service := $services }}
{{- if not (has $name $placed) }}
{{- $waits := false }}
{{- range $service.dependencies }}
{{- if not (hasKey $services .) }}{{ fail (printf "%s.%s.dependencies: there is no service %s" $path $name .) }}{{ end }}
{{- if not (has . $placed) }}{{ $waits = true }}{{ end }}
{{- end }}
{{- if not $waits }}{{ $placed = append $placed $name }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $_ := $services }}
{{- if not (has $name $placed) }}{{ fail (printf "%s.%s depends on itself" $path $name) }}{{ end }}
{{- end }}
{{- range $name := $placed }}
{{- $service := get $services $name }}
{{ $name }} {{ $service.type | default "oneshot" }} {{ hasKey $service "timeoutUp" | ternary $service.timeoutUp 60 | int }} {{ hasKey $service "timeoutDown" | ternary $service.timeoutDown 10 | int }}
{{- end }}
{{- end }}

{{- /* The data of the ConfigMap with a NodeSet's services; empty if it has none. Call with the merged values of the NodeSet,
its name and the root. */}}
{{- define "slurm.services" -}}
{{- $services := dict }}
{{- range $name, $service := .values.services }}
{{- if $service }}{{ $_ := set $services $name $service }}{{ end }}
{{- end }}
{{- if include "slurm.computeSsh" .root }}
{{- if hasKey $services "sshd" }}{{ fail (printf "services of NodeSet %s: with compute.ssh the chart makes a service sshd itself: rename yours" .name) }}{{ end }}
{{- $port := .values.fabric.hostNetwork | ternary (printf "SUNKPY_SSH_PORT=%d " (int .values.fabric.sshPort)) "" }}
{{- $_ := set $services "sshd" (dict "type" "longrun" "script" (printf "#!/bin/bash\n%sexec /usr/local/bin/start-sshd /etc/sunkpy/sshd\n" $port)) }}
{{- end }}
{{- if .values.verify.script }}
{{- if hasKey $services "verify" }}{{ fail (printf "services of NodeSet %s: with compute.verify.script the chart makes a service verify itself: rename yours" .name) }}{{ end }}
{{- $_ := set $services "verify" (dict "type" "oneshot" "script" .values.verify.script "timeoutUp" .values.verify.timeoutSeconds "dependencies" (keys $services | sortAlpha)) }}
{{- end }}
{{- if $services }}
services.list: {{ printf "%s\n" (include "slurm.serviceOrder" (dict "path" (printf "services of NodeSet %s: services" .name) "services" $services) | trim) | toJson }}
{{- range $name, $service := $services }}
{{ $name | quote }}: {{ $service.script | toJson }}
{{- end }}
{{- end }}
{{- end }}
