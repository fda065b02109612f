{{- /* One value of slurm.conf(5) or slurmdbd.conf(5): a list is joined with commas, a map is option=value, where true is the
option alone and false leaves it out. Helm reads numbers as floats, and Slurm ends at 2e+06. */}}
{{- define "slurm.confValue" -}}
{{- if kindIs "map" . }}
{{- $words := list }}
{{- range $option, $value := . }}
{{- if kindIs "bool" $value }}{{ if $value }}{{ $words = append $words $option }}{{ end }}
{{- else if not (kindIs "invalid" $value) }}{{ $words = append $words (printf "%s=%s" $option (include "slurm.confValue" $value)) }}
{{- end }}
{{- end }}
{{- join "," $words }}
{{- else if kindIs "slice" . }}
{{- $words := list }}
{{- range . }}{{ if not (kindIs "invalid" .) }}{{ $words = append $words (include "slurm.confValue" .) }}{{ end }}{{ end }}
{{- join "," $words }}
{{- else if kindIs "bool" . }}{{ ternary "YES" "NO" . }}
{{- else if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}
{{- else }}{{ . }}
{{- end }}
{{- end }}

{{- /* Lines of a configuration file as values want them, as a map: key to value. Refuses by name keys that the chart sets itself, and
keys that do nothing or do harm. Call with (dict "root" $ "path" where they stand in the values, "wanted" the map there, "lists" keys to lists
that go with what is wanted). */}}
{{- define "slurm.confMap" -}}
{{- $path := .path }}
{{- $classes := get (.root.Files.Get "files/slurm-conf.yaml" | fromYaml) (regexReplaceAll "^partitions\\..*" $path "partitions.<name>.conf") }}
{{- $says := dict }}
{{- range $key, $instead := $classes.ours }}
{{- $_ := set $says (lower $key) (empty $instead | ternary "the chart sets it, and the parts of sunkpy rely on it" (printf "use the value %s" $instead)) }}
{{- end }}
{{- range $key, $why := ($classes.refused | default dict) }}{{ $_ := set $says (lower $key) $why }}{{ end }}
{{- $lines := dict }}
{{- $spelt := dict }}
{{- range $key, $value := .wanted }}
{{- $lower := lower $key }}
{{- with get $spelt $lower }}{{ fail (printf "%s: %s and %s are the same key for Slurm: write it only once. If values.yaml of the chart has the key, spell it as there" $path . $key) }}{{ end }}
{{- $_ := set $spelt $lower $key }}
{{- with get $says $lower }}{{ fail (printf "%s.%s: %s" $path $key .) }}{{ end }}
{{- /* YAML reads OFF as false. */}}
{{- $text := and (eq $lower "preemptmode") (kindIs "bool" $value) | ternary "OFF" (include "slurm.confValue" $value) }}
{{- /* A map whose options are all left out, or an empty list, makes no line. */}}
{{- if not (or (kindIs "invalid" $value) (and (empty $text) (not (kindIs "string" $value)))) }}{{ $_ := set $lines $key $text }}{{ end }}
{{- range $of, $refused := $classes.values | default dict }}
{{- if eq (lower $of) $lower }}
{{- range $pattern, $why := $refused }}
{{- with regexFind $pattern (trimAll "\"" $text) }}{{ fail (printf "%s.%s: %s: %s" $path $key (trimAll "," .) $why) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key, $words := .lists }}
{{- $name := get $spelt (lower $key) | default $key }}
{{- $all := uniq (concat (splitList "," (get $lines $name) | compact) $words) }}
{{- if $all }}{{ $_ := set $lines $name (join "," $all) }}{{ end }}
{{- end }}
{{- toYaml $lines }}
{{- end }}

{{- /* The NodeSets whose nodes are checked while nothing runs there, and how, as the syncer reads it. */}}
{{- define "slurm.idleChecks" -}}
{{- $rules := dict }}
{{- range $name, $own := include "slurm.nodeSets" . | fromYaml }}
{{- $verify := mergeOverwrite (deepCopy $.Values.compute.verify) (deepCopy (($own | default dict).verify | default dict)) }}
{{- if $verify.idle.everyHours }}
{{- if not $verify.script }}{{ fail (printf "compute.verify.idle.everyHours of NodeSet %s: there is no compute.verify.script to run" $name) }}{{ end }}
{{- $rule := dict "seconds" (int (mul 3600 (int $verify.idle.everyHours))) "maxPercent" (int $verify.idle.maxPercent) "qos" $verify.idle.qos }}
{{- $_ := set $rules $name $rule }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{- /* The partition of these checks. Jobs of all other partitions preempt them at once, only root uses it, and it is not billed.
Call with (dict "root" $ "given" <slurmConfig.conf, keys in small letters>). */}}
{{- define "slurm.idlePartition" -}}
{{- $rules := include "slurm.idleChecks" .root | fromYaml }}
{{- if $rules }}
{{- $path := "compute.verify.idle" }}
{{- if not .root.Values.syncer.metrics.enabled }}{{ fail (printf "%s needs syncer.metrics.enabled: true, because the syncer learns from its metrics of Slurm which nodes jobs want" $path) }}{{ end }}
{{- if hasKey .root.Values.partitions "sunkpy-verify" }}{{ fail (printf "partitions.sunkpy-verify: with %s the chart makes a partition of this name itself: rename yours" $path) }}{{ end }}
{{- if regexMatch "(?i)^(off)?$" (get .given "preemptmode") }}{{ fail (printf "%s needs preemption, or jobs would wait until checks end: set slurmConfig.conf.PreemptMode to CANCEL or REQUEUE" $path) }}{{ end }}
{{- if not (regexMatch "^(0|00:00(:00)?)?$" (get .given "preemptexempttime")) }}{{ fail (printf "%s: with slurmConfig.conf.PreemptExemptTime, jobs would wait until checks end: leave out PreemptExemptTime" $path) }}{{ end }}
{{- $type := get .given "preempttype" }}
{{- range $name, $rule := $rules }}
{{- if not (or (hasSuffix "partition_prio" $type) (and (hasSuffix "qos" $type) $rule.qos)) }}
{{- fail (printf "%s of NodeSet %s: with slurmConfig.conf.PreemptType %s, jobs would not preempt checks. Set PreemptType to preempt/partition_prio, or to preempt/qos and %s.qos to a QoS that all other QoS preempt" $path $name ($type | default "preempt/none") $path) }}
{{- end }}
{{- end }}
{{- range $name, $partition := .root.Values.partitions }}
{{- if and (hasSuffix "partition_prio" $type) (eq "0" (include "slurm.priorityTier" ($partition | default dict))) }}
{{- fail (printf "partitions.%s.priorityTier: 0 is the tier of the checks of %s, which jobs of this partition would not preempt: set at least 1" $name $path) }}
{{- end }}
{{- end }}
PartitionName=sunkpy-verify Nodes={{ keys $rules | sortAlpha | join "," }} PriorityTier=0 PreemptMode=CANCEL RootOnly=YES DisableRootJobs=NO Hidden=YES TRESBillingWeights=CPU=0
{{- end }}
{{- end }}

{{- /* The NodeSets of the values; if there are none, one NodeSet for all nodes. A NodeSet that is null is left out. */}}
{{- define "slurm.nodeSets" -}}
{{- $sets := dict }}
{{- range $name, $own := .Values.nodeSets | default (dict "compute" dict) }}
{{- if not (kindIs "invalid" $own) }}{{ $_ := set $sets $name $own }}{{ end }}
{{- end }}
{{- toYaml $sets }}
{{- end }}

{{- define "slurm.gresTypes" -}}
{{- $names := list }}
{{- range $set, $own := include "slurm.nodeSets" . | fromYaml }}
{{- range ($own | default dict).gres }}
{{- /* The CustomResourceDefinition refuses these as well, but only when slurm.conf is there already. */}}
{{- if has .name (list "gpu" "mps" "shard") }}{{ fail (printf "nodeSets.%s.gres: an entry is called %s, but none may be called gpu, mps or shard. Describe GPUs in nodeSets.%s.gpu" $set .name $set) }}{{ end }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- prepend ($names | uniq | sortAlpha) "gpu" | join "," }}
{{- end }}

{{- /* Call with the values of a partition. */}}
{{- define "slurm.priorityTier" -}}{{ kindIs "invalid" .priorityTier | ternary 1 .priorityTier | int }}{{- end }}

{{- /* Lines of the partitions. slurmctld ends if a line names a NodeSet that it does not know. */}}
{{- define "slurm.partitions" -}}
{{- $sets := include "slurm.nodeSets" . | fromYaml }}
{{- $defaults := list }}
{{- include "slurm.keptPartitions" . }}
{{- range $name, $values := .Values.partitions }}
{{- $partition := $values | default dict }}
{{- $path := printf "partitions.%s" $name }}
{{- if $partition.default }}{{ $defaults = append $defaults $name }}{{ end }}
{{- range $partition.nodeSets }}
{{- if not (or (hasKey $sets .) (eq . "ALL")) }}{{ fail (printf "%s.nodeSets: there is no NodeSet %s; nodeSets has %s" $path . (keys $sets | sortAlpha | join ", ")) }}{{ end }}
{{- end }}
{{- if and $partition.features $partition.nodeSets }}{{ fail (printf "%s: set features or nodeSets, not both. With both, a node that matches only one of them would be in the partition" $path) }}{{ end }}
{{- include "slurm.noGang" $partition.preemptMode }}
{{- $nodes := $partition.nodeSets | default (list "ALL") }}
{{- /* No NodeSet of values has such a name. */}}
{{- range $at, $feature := $partition.features }}
{{- $set := printf "feature_%s_%d" $name $at }}
{{- $nodes = eq $at 0 | ternary (list $set) (append $nodes $set) }}
NodeSet={{ $set }} Feature={{ $feature }}
{{ end }}
{{- $conf := include "slurm.confMap" (dict "root" $ "path" (printf "%s.conf" $path) "wanted" $partition.conf) | fromYaml }}
PartitionName={{ $name }} Nodes={{ join "," $nodes }} PriorityTier={{ include "slurm.priorityTier" $partition }}
{{- if $partition.default }} Default=YES{{ end }}
{{- with $partition.maxTime }} MaxTime={{ include "slurm.confValue" . }}{{ end }}
{{- with $partition.defaultTime }} DefaultTime={{ include "slurm.confValue" . }}{{ end }}
{{- with $partition.preemptMode }} PreemptMode={{ . }}{{ end }}
{{- with $partition.state }} State={{ . }}{{ end }}
{{- range $key, $value := $conf }} {{ $key }}={{ $value }}{{ end }}
{{ end }}
{{- if gt (len $defaults) 1 }}
{{- fail (printf "partitions: %s are default, and only one can be: set partitions.%s.default: false" (join " and " $defaults) (first $defaults)) }}
{{- end }}
{{- end }}

{{- define "slurm.noGang" -}}
{{- if regexMatch "(?i)suspend|gang" (. | default "") }}
{{- fail "preemptMode SUSPEND and GANG start the next job while the pods of the suspended job still run on its nodes: use REQUEUE, CANCEL or OFF" }}
{{- end }}
{{- end }}

{{- /* The name of a NodeSet. It is refused while a NodeSet of that name is being deleted: helm would change that one, and none would be
left afterwards.
Call with (dict "root" $ "name" …). */}}
{{- define "slurm.keptNodeSet" -}}
{{- $metadata := (lookup "sunkpy.dev/v1alpha1" "NodeSet" .root.Release.Namespace .name | default dict).metadata | default dict }}
{{- if $metadata.deletionTimestamp }}
{{- fail (printf "nodeSets.%s: a NodeSet of this name is being deleted, and waits for the jobs on its nodes. Upgrade when it is gone (kubectl -n %s get nodesets), or choose another name" .name .root.Release.Namespace) }}
{{- end }}
{{- .name }}
{{- end }}

{{- /* Nothing, or the refusal to leave out a partition that takes jobs: slurmctld ends jobs that run in a partition that is gone.
A partition without values has all nodes and no limits. Somebody who writes null in place of its values wants to remove it. */}}
{{- define "slurm.keptPartitions" -}}
{{- range regexFindAll "(?m)^PartitionName=.*$" (include "slurm.confThere" . ) -1 }}
{{- $name := regexFind "^[^ ]+" . | trimPrefix "PartitionName=" }}
{{- if not (or (hasKey $.Values.partitions $name) (eq $name "sunkpy-verify") (regexMatch "(?i) State=(DRAIN|DOWN|INACTIVE)( |$)" .)) }}
{{- fail (printf "partitions: the values no longer have partition %s, and slurmctld would end the jobs that run in it. First set partitions.%s.state: DRAIN, wait until `squeue -p %s` is empty, then leave out the partition" $name $name $name) }}
{{- end }}
{{- if and (hasKey $.Values.partitions $name) (kindIs "invalid" (get $.Values.partitions $name)) (ne . (printf "PartitionName=%s Nodes=ALL PriorityTier=1" $name)) }}
{{- fail (printf "partitions.%s: null does not remove the partition, but its limits. To remove the partition, set partitions.%s.state: DRAIN, wait until `squeue -p %s` is empty, then leave out its key. For a partition of all nodes without limits, write {} in place of null" $name $name $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The present slurm.conf in the cluster; empty at an install, and if helm does not ask the apiserver. */}}
{{- define "slurm.confThere" -}}
{{- $there := lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-slurm-config" .Release.Name) | default dict }}
{{- get ($there.data | default dict) "slurm.conf" }}
{{- end }}

{{- /* The name of the cluster. It is refused if slurmctld would not start with it on its saved state. */}}
{{- define "slurm.keptClusterName" -}}
{{- $name := include "slurm.cluster" . }}
{{- $has := include "slurm.confThere" . | regexFind "(?m)^ClusterName=.*$" | trimPrefix "ClusterName=" }}
{{- if and $has (ne $has $name) }}
{{- fail (printf "clusterName is %s, but this cluster was installed as %s, and the state of slurmctld and the records of slurmdbd are kept under that name. Set clusterName: %s" $name $has $has) }}
{{- end }}
{{- $name }}
{{- end }}

{{- /* If not empty, Slurm shows people only their own jobs. */}}
{{- define "slurm.privateJobs" -}}
{{- if regexMatch "(?i)jobs" (include "slurm.confValue" (.Values.slurmConfig.conf.PrivateData | default "")) }}true{{ end }}
{{- end }}

{{- /* Nothing, or what is wrong with `topology`. Call with (dict "root" $ "plugin" what slurmConfig.conf.TopologyPlugin says). */}}
{{- define "slurm.checkTopology" -}}
{{- $topology := .root.Values.topology }}
{{- $files := include "slurm.topologyFile" .root }}
{{- if and $topology.source (ne $topology.source "slinky") }}
{{- if $files }}{{ fail (printf "topology.source is set, and slurmConfig.files has %s, too: leave out one of the two" $files) }}{{ end }}
{{- if .plugin }}{{ fail "slurmConfig.conf.TopologyPlugin: with topology.source, leave it out and set topology.plugins" }}{{ end }}
{{- if and (has "block" $topology.plugins) (not $topology.blockSizes) }}
{{- fail "topology.plugins: block needs topology.blockSizes. Their smallest number is the number of nodes of the smallest block" }}
{{- end }}
{{- end }}
{{- if and (eq $topology.source "slinky") (ne $files "topology.yaml") }}
{{- fail "topology.source: slinky needs a topology.yaml, which describes the units that the Nodes name: add it to slurmConfig.files" }}
{{- end }}
{{- if and (eq $topology.source "labels") (not $topology.levels) }}{{ fail "topology.source: labels needs topology.levels: the keys of the labels, that of the widest level first" }}{{ end }}
{{- if and (has $topology.source (list "kueue" "configMap")) (not $topology.name) }}
{{- fail (printf "topology.source: %s needs topology.name, the name of the %s" $topology.source (eq $topology.source "kueue" | ternary "Topology of Kueue" "ConfigMap")) }}
{{- end }}
{{- end }}

{{- /* Nothing, or the refusal of more possible nodes than Slurm has room for. Each possible node has a record, which stays for a minute
beside the record of the node that has come in its place. Call with (dict "root" $ "most" MaxNodeCount). */}}
{{- define "slurm.checkPotential" -}}
{{- $all := 0 }}
{{- range $name, $own := include "slurm.nodeSets" .root | fromYaml }}
{{- $growth := ($own | default dict).growth | default dict }}
{{- $potential := int64 $growth.potential }}
{{- $all = add $all $potential }}
{{- $asks := and $growth.ask (ne $growth.ask "none") }}
{{- if and (not $potential) (or $asks $growth.releaseAfterSeconds) }}
{{- fail (printf "nodeSets.%s.growth: ask and releaseAfterSeconds need potential, the number of nodes for which Slurm takes jobs. Without potential, sunkpy does not know which nodes jobs want" $name) }}
{{- end }}
{{- if and $potential (not $.root.Values.syncer.metrics.enabled) }}
{{- fail (printf "nodeSets.%s.growth.potential needs syncer.metrics.enabled: true, because the syncer learns from its metrics of Slurm which nodes jobs lack" $name) }}
{{- end }}
{{- end }}
{{- if and .most (gt (mul 2 $all) (int64 .most)) }}
{{- fail (printf "nodeSets.<name>.growth.potential: together %d nodes, and Slurm needs room for twice as many. Set slurmConfig.conf.MaxNodeCount to at least %d" $all (mul 2 $all)) }}
{{- end }}
{{- end }}

{{- /* The name of a topology file that a person has written, or nothing. */}}
{{- define "slurm.topologyFile" -}}
{{- if hasKey .Values.slurmConfig.files "topology.yaml" }}topology.yaml{{ else if hasKey .Values.slurmConfig.files "topology.conf" }}topology.conf{{ end }}
{{- end }}

{{- /* Settings of the topology, for syncer and scheduler; nothing if there is none. */}}
{{- define "slurm.topologyConfig" -}}
{{- $file := include "slurm.topologyFile" . }}
{{- $of := dict }}
{{- range $key, $value := .Values.topology }}{{ if $value }}{{ $_ := set $of $key $value }}{{ end }}{{ end }}
{{- if or $file .Values.topology.source }}
{{- $of = merge (dict "configMap" (printf "%s-topology" .Release.Name)) $of }}
{{- if $file }}{{ $of = merge (dict "fileName" $file "file" (get .Values.slurmConfig.files $file)) $of }}{{ end }}
{{- toJson $of }}
{{- end }}
{{- end }}
