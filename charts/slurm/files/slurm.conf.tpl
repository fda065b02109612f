{{- $modes := list .Values.slurmConfig.extra }}
{{- range .Values.partitions }}{{ $own := . | default dict }}{{ $modes = append $modes (printf "PreemptMode=%s %s" ($own.preemptMode | default "OFF") ($own.extra | default "")) }}{{ end }}
{{- if regexMatch "(?im)^(\\\\#|[^#\n])*preemptmode\\s*=\\s*[^\\s#]*(suspend|gang)" (join "\n" $modes) }}
{{- fail "preemptMode SUSPEND and GANG start the next job beside the one that they stop, whose pods are still there: use REQUEUE, CANCEL or OFF" }}
{{- end -}}
{{- if regexMatch "(?im)^(\\\\#|[^#\n])*(oversubscribe|shared)\\s*=\\s*force(:([2-9]|[1-9][0-9]+))?([^:0-9]|$)" (join "\n" $modes) }}
{{- fail "OverSubscribe=FORCE gives the cpus of a pod to other jobs as well, and no pod can refuse: use YES, NO or FORCE:1" }}
{{- end -}}
{{- $plugins := regexFind "(?im)^\\s*jobsubmitplugins\\s*=[^#\n]*" .Values.slurmConfig.extra }}
{{- if and .Values.scheduler.enabled $plugins (not (regexMatch "[=,\\s]lua(,|\\s|$)" $plugins)) }}
{{- fail "JobSubmitPlugins in slurmConfig.extra: name lua as well, for slurmctld needs the job_submit.lua of this chart" }}
{{- end -}}
{{- if and .Values.slurmConfig.privateTmp (ne .Values.slurmConfig.cgroup "auto") }}
{{- fail "slurmConfig.privateTmp needs slurmConfig.cgroup: auto; without cgroups Slurm 24.11 does not start every second job with it" }}
{{- end -}}
{{- $parts := list "enable_configless" | concat .Values.slurmConfig.slurmctldParameters -}}
ClusterName={{ include "slurm.cluster" . }}
SlurmctldHost={{ .Release.Name }}-slurmctld-0({{ .Release.Name }}-slurmctld)
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/state
# A link that start-slurmctld makes: while it is there, slurmctld has not ended in order.
SlurmctldPidFile=/var/lib/slurm/state/slurmctld.pid
SlurmdSpoolDir=/var/spool/slurmd
MailProg=/bin/true

# One key signs what the daemons say to each other; users are vouched for by sackd; slurmrestd brings JSON web tokens.
AuthType=auth/slurm
CredType=cred/slurm
# ttl: a batch job is launched with the credential that was made before its Prolog, which may wait for pods (hooks).
AuthInfo=use_client_ids,ttl={{ add (int .Values.hooks.epilogTimeoutSeconds) (int .Values.hooks.prologTimeoutSeconds) 60 }}
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key

# Nodes are pods: they come and go, fetch this file from slurmctld, and say themselves what they have.
SlurmctldParameters={{ join "," $parts }}
SlurmdParameters=config_overrides
MaxNodeCount={{ int .Values.slurmConfig.maxNodeCount }}
MaxJobCount={{ int .Values.slurmConfig.maxJobCount }}
# A node that was silent comes back by itself; one that an admin set DOWN stays DOWN until they resume it.
ReturnToService=1
SlurmdTimeout={{ int .Values.slurmConfig.slurmdTimeoutSeconds }}
TreeWidth={{ int .Values.slurmConfig.treeWidth }}
MessageTimeout={{ int .Values.slurmConfig.messageTimeoutSeconds }}
GresTypes=gpu

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
{{- with .Values.slurmConfig.defMemPerCPU }}
DefMemPerCPU={{ int . }}
{{- end }}
{{- if eq .Values.slurmConfig.cgroup "auto" }}
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
{{- else }}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/{{ .Values.accounting.enabled | ternary "linux" "none" }}
{{- end }}
{{- if .Values.slurmConfig.privateTmp }}
# By the name that it has until 25.05, which later releases understand.
JobContainerType=job_container/tmpfs
{{- end }}
MpiDefault=none
# A job that could not be launched, by a failed Prolog or a slurmctld that died meanwhile, waits again and is not held.
SchedulerParameters={{ append .Values.slurmConfig.schedulerParameters "nohold_on_prolog_fail" | uniq | join "," }}
{{- if and .Values.scheduler.enabled (not $plugins) }}

# Whose job stands for pods, and that its owner does not change what the pods rely on.
JobSubmitPlugins=lua
{{- end }}
{{- if .Values.accounting.enabled }}

# What ran for whom. slurmctld keeps what it cannot tell slurmdbd, and works from what slurmdbd told it last.
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={{ .Release.Name }}-slurmdbd
AccountingStoragePort=6819
{{- with .Values.accounting.enforce }}
AccountingStorageEnforce={{ join "," . }}
{{- end }}
{{- with .Values.accounting.tres }}
AccountingStorageTRES={{ join "," . }}
{{- end }}
# The comment of a job says which pods it stands for.
AccountingStoreFlags=job_comment
{{- end }}
{{- range $factor, $weight := .Values.slurmConfig.priorityWeights }}
PriorityWeight{{ $factor }}={{ int64 $weight }}
{{- end }}

# Alloc: the Prolog runs on every node as soon as the job has it. Not Serial: one pod that takes its time to end would
# hold up every other job that starts or ends on its node.
{{- $flags := list "Alloc" }}
{{- if or .Values.slurmConfig.privateTmp (include "slurm.computeSsh" .) }}
# Contain: each job has a step on each of its nodes, to which sessions by ssh and a /tmp of its own belong.
{{- $flags = append $flags "Contain" }}
{{- end }}
{{- if and .Values.login.ssh.x11 (eq .Values.slurmConfig.cgroup "auto") }}
# X11: srun --x11; Slurm wants cgroups for it.
{{- $flags = append $flags "X11" }}
{{- end }}
PrologFlags={{ join "," $flags }}
# A Prolog may wait long for pods to leave; a batch job that has not begun after this time is missing.
BatchStartTimeout=60
Prolog=prolog.sh
Epilog=epilog.sh
KillWait={{ int .Values.slurmConfig.killWaitSeconds }}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
{{ range $name, $_ := .Values.nodeSets }}
NodeSet={{ $name }} Feature={{ $name }}
{{- end }}
{{ range $name, $values := .Values.partitions }}{{ $partition := $values | default dict }}
PartitionName={{ $name }} Nodes={{ join "," ($partition.nodeSets | default (list "ALL")) }} PriorityTier={{ int ($partition.priorityTier | default 1) }}
{{- if $partition.default }} Default=YES{{ end }}
{{- with $partition.maxTime }} MaxTime={{ kindIs "string" . | ternary . (int64 .) }}{{ end }}
{{- with $partition.defaultTime }} DefaultTime={{ kindIs "string" . | ternary . (int64 .) }}{{ end }}
{{- with $partition.preemptMode }} PreemptMode={{ . }}{{ end }}
{{- with $partition.state }} State={{ . }}{{ end }}
{{- with $partition.extra }} {{ . }}{{ end }}
{{- end }}
{{ with .Values.slurmConfig.extra }}
{{ . }}
{{- end }}
