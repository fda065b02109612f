{{- $fixed := tpl (.Files.Get "files/slurm-fixed.conf.tpl") . }}
{{- $cgroup := eq .Values.slurmConfig.cgroup "auto" }}
{{- if and .Values.slurmConfig.privateTmp (not $cgroup) }}
{{- fail "slurmConfig.privateTmp needs slurmConfig.cgroup: auto; without cgroups Slurm 24.11 does not start every second job with it" }}
{{- end }}
{{- if and .Values.slurmConfig.privatePids (not .Values.slurmConfig.privateTmp) }}
{{- fail "slurmConfig.privatePids needs slurmConfig.privateTmp: true; Slurm has only both in one" }}
{{- end -}}
{{- $conf := .Values.slurmConfig.conf }}
{{- range $key, $value := $conf }}{{ if eq (lower $key) "preemptmode" }}{{ include "slurm.noGang" (include "slurm.confValue" $value) }}{{ end }}{{ end }}
{{- range splitList "," (include "slurm.confValue" ($conf.SelectTypeParameters | default "")) }}
{{- if has . (list "CR_CPU" "CR_CPU_Memory" "CR_Core" "CR_Socket" "CR_Socket_Memory" "CR_Memory") }}{{ fail (printf "slurmConfig.conf.SelectTypeParameters: %s: pods are counted in cores and memory, so CR_Core_Memory stays; others may go with it" .) }}{{ end }}
{{- end }}
{{- /* Nodes are pods, which fetch this file from slurmctld and say themselves what they have. A job that could not be launched,
by a failed Prolog or a slurmctld that died meanwhile, waits again and is not held. The script of the chart says whose job stands
for pods, and sees to it that its owner does not change what the pods rely on. The comment of a job names its pods. */}}
{{- $lists := dict "SlurmctldParameters" (list "enable_configless") "SlurmdParameters" (list "config_overrides") "GresTypes" (list "gpu")
  "SelectTypeParameters" (list "CR_Core_Memory") "SchedulerParameters" (list "nohold_on_prolog_fail") "TaskPlugin" ($cgroup | ternary (list "task/cgroup") (hasKey $conf "TaskPlugin" | ternary list (list "task/none")))
  "JobSubmitPlugins" (.Values.scheduler.enabled | ternary (list "lua") list) "AccountingStoreFlags" (.Values.accounting.enabled | ternary (list "job_comment") list) }}
{{- $instead := dict "clustername" "clusterName" "prolog" "hooks.prologConfigMap" "epilog" "hooks.epilogConfigMap" "partitionname" "partitions"
  "nodeset" "nodeSets" "nodename" "nodeSets: nodes register themselves" "include" "slurmConfig.conf, for nodes are sent no other file"
  "proctracktype" "slurmConfig.cgroup" "jobacctgathertype" "slurmConfig.cgroup" "jobcontainertype" "slurmConfig.privateTmp"
  "namespacetype" "slurmConfig.privatePids"
  "prologflags" "slurmConfig.privateTmp, compute.ssh and login.ssh.x11" "accountingstoragetype" "accounting.enabled" "accountingstoragehost" "accounting"
  "accountingstorageenforce" "accounting.enforce" "accountingstoragetres" "accounting.tres" "firstjobid" "nothing: start-slurmctld sets it" }}
{{- /* The Service, the policies and slurmd pods have these. */}}
{{- $kept := list "slurmctldport" "slurmdport" "slurmctldaddr" "slurmduser" "controlmachine" "controladdr" "backupcontroller" "backupaddr" }}
{{- if and (include "slurm.backupController" .) (not (regexMatch "(?im)^slurmctldtimeout:" (toYaml $conf))) }}
{{- $conf = merge (dict "SlurmctldTimeout" 30) $conf }}
{{- end }}
{{- $fixed }}
{{ range $key, $value := include "slurm.confMap" (dict "path" "slurmConfig.conf" "wanted" $conf "fixed" $fixed "kept" $kept "lists" $lists "instead" $instead) | fromYaml }}
{{ $key }}={{ $value }}
{{- end }}
{{ range $name, $_ := include "slurm.nodeSets" . | fromYaml }}
NodeSet={{ $name }} Feature={{ $name }}
{{- end }}
{{ include "slurm.partitions" . }}
