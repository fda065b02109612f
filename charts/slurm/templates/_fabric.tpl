{{- /* The resources of a slurmd container with those of the fabric, or the refusal of values that cannot work: a value that is set
twice, or one that a pod on the machine's own network cannot have. Call with (dict "root" $ "name" of the NodeSet "values" its own,
merged with compute). */}}
{{- define "slurm.fabricResources" -}}
{{- $fabric := .values.fabric }}
{{- $name := .name }}
{{- $resources := deepCopy .values.resources }}
{{- range $resource, $count := $fabric.resources }}
{{- if $count }}
{{- range $of := list "limits" "requests" }}
{{- if hasKey (get $resources $of | default dict) $resource }}
{{- fail (printf "fabric.resources of NodeSet %s: resources.%s has %s, too: leave it out of resources" $name $of $resource) }}
{{- end }}
{{- end }}
{{- $_ := set $resources "limits" (merge (dict $resource (int $count)) ($resources.limits | default dict)) }}
{{- end }}
{{- end }}
{{- range $claim, $template := $fabric.claims }}
{{- if $template }}{{ $_ := set $resources "claims" (append ($resources.claims | default list) (dict "name" $claim)) }}{{ end }}
{{- end }}
{{- if and $fabric.networks (hasKey .values.podAnnotations "k8s.v1.cni.cncf.io/networks") }}
{{- fail (printf "fabric.networks of NodeSet %s: podAnnotations has k8s.v1.cni.cncf.io/networks, too: leave out one of the two" $name) }}
{{- end }}
{{- if $fabric.hostNetwork }}
{{- if $fabric.networks }}
{{- fail (printf "fabric.networks of NodeSet %s: with fabric.hostNetwork, the pods have all interfaces of the machine, and Multus adds none: leave out networks or hostNetwork" $name) }}
{{- end }}
{{- $policies := .root.Values.networkPolicies }}
{{- if and $policies.enabled (not $policies.slurmdFrom) }}
{{- fail (printf "fabric.hostNetwork of NodeSet %s: no NetworkPolicy can select pods on the machines' network, so the policy of slurmctld would shut out these slurmd pods. Name the addresses of the machines in networkPolicies.slurmdFrom, [{ipBlock: {cidr: …}}], or set networkPolicies.enabled: false. No policy limits what jobs on these nodes can reach, not even networkPolicies.jobEgress" $name) }}
{{- end }}
{{- if and (include "slurm.computeSsh" .root) (has (int $fabric.sshPort) (list 0 22)) }}
{{- fail (printf "fabric.hostNetwork of NodeSet %s: the machine's own sshd uses port 22, so set fabric.sshPort to another port, for compute.ssh" $name) }}
{{- end }}
{{- end }}
{{- toYaml $resources }}
{{- end }}
