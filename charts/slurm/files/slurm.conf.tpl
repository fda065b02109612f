{{- $cgroup := eq .Values.slurmConfig.cgroup "auto" }}
{{- if and (include "slurm.privateTmp" .) (not $cgroup) }}
{{- fail "slurmConfig.privateTmp needs slurmConfig.cgroup: auto. With privateTmp and without cgroups, Slurm 24.11 fails to start every second job" }}
{{- end }}
{{- if and .Values.slurmConfig.privatePids (not (include "slurm.privateTmp" .)) }}
{{- fail "slurmConfig.privatePids needs slurmConfig.privateTmp: auto or true, and slurmConfig.cgroup: auto. Slurm can give a job process ids of its own only together with a /tmp of its own" }}
{{- end -}}
{{- $conf := .Values.slurmConfig.conf }}
{{- $given := dict }}
{{- range $key, $value := $conf }}{{ $_ := set $given (lower $key) (include "slurm.confValue" $value) }}{{ end }}
{{- $files := .Values.slurmConfig.files }}
{{- if and (regexMatch "(?i)(^|[,/])lua(,|$)" (get $given "clifilterplugins")) (not (hasKey $files "cli_filter.lua")) }}
{{- fail "slurmConfig.conf.CliFilterPlugins: lua needs a script, without which no srun, sbatch or salloc starts: add cli_filter.lua to slurmConfig.files" }}
{{- end }}
{{- include "slurm.checkTopology" (dict "root" . "plugin" (get $given "topologyplugin")) }}
{{- include "slurm.checkPotential" (dict "root" . "most" (get $given "maxnodecount")) }}
{{- $labelled := and .Values.topology.source (ne .Values.topology.source "slinky") }}
{{- if and (regexMatch "(?i)tree|block" (get $given "topologyplugin")) (not (hasKey $files "topology.conf")) (not (hasKey $files "topology.yaml")) }}
{{- fail "slurmConfig.conf.TopologyPlugin: a topology is missing: add topology.conf or topology.yaml to slurmConfig.files" }}
{{- end }}
{{- /* Nodes are pods, which fetch this file from slurmctld and say themselves what they have. A job that could not be launched,
by a failed Prolog or a slurmctld that died meanwhile, waits again and is not held. The script of the chart says whose job stands
for pods, and sees to it that its owner does not change what the pods rely on; it gives jobs with GPUs their share of the node.
The comment of a job names its pods. Without cgroups, jobs have the affinity of slurmd, which by default is that of cores kept from jobs. */}}
{{- $lists := dict "SlurmctldParameters" (list "enable_configless") "SlurmdParameters" (list "config_overrides")
  "SelectTypeParameters" (list "CR_Core_Memory") "SchedulerParameters" (list "nohold_on_prolog_fail") "TaskPlugin" ($cgroup | ternary (list "task/cgroup") (hasKey $conf "TaskPlugin" | ternary list (list "task/none")))
  "TaskPluginParam" ($cgroup | ternary list (list "SlurmdOffSpec")) "JobSubmitPlugins" (list "lua") "AccountingStoreFlags" (.Values.accounting.enabled | ternary (list "job_comment") list) }}
{{- if and (include "slurm.backupController" .) (not (regexMatch "(?im)^slurmctldtimeout:" (toYaml $conf))) }}
{{- $conf = merge (dict "SlurmctldTimeout" 30) $conf }}
{{- end }}
{{- if $labelled }}
{{- $conf = merge (dict "TopologyPlugin" (printf "topology/%s" (first .Values.topology.plugins))) $conf }}
{{- end }}
{{- tpl (.Files.Get "files/slurm-fixed.conf.tpl") . }}
{{ range $key, $value := include "slurm.confMap" (dict "root" $ "path" "slurmConfig.conf" "wanted" $conf "lists" $lists) | fromYaml }}
{{ $key }}={{ $value }}
{{- end }}
{{ range $name, $_ := include "slurm.nodeSets" . | fromYaml }}
NodeSet={{ $name }} Feature={{ $name }}
{{- end }}
{{ include "slurm.partitions" . }}
{{- with include "slurm.idlePartition" (dict "root" . "given" $given) | trim }}
{{ . }}
{{- end }}
