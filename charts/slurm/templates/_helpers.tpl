{{- define "slurm.cluster" -}}{{ .Values.clusterName | default .Release.Name }}{{- end }}
{{- define "slurm.schedulerName" -}}{{ .Values.scheduler.name | default .Release.Name }}{{- end }}
{{- define "slurm.slurmSecret" -}}{{ .Values.keys.existingSlurmSecret | default (printf "%s-slurm-key" .Release.Name) }}{{- end }}
{{- define "slurm.jwtSecret" -}}{{ .Values.keys.existingJwtSecret | default (printf "%s-jwt-key" .Release.Name) }}{{- end }}
{{- /* The DNS domains in which names of Slurm nodes are looked up: docs/design/node-names.md. A pod's own list replaces the common one,
so the common one is added. */}}
{{- define "slurm.dns" -}}
{{- $ours := printf "%s-compute.%s.svc.%s" .Release.Name .Release.Namespace .Values.clusterDomain }}
dnsConfig: {searches: {{ prepend (.Values.common.podSpec.dnsConfig.searches | default list) $ours | toJson }}}
{{- end }}
{{- /* Whether labels or annotations of a namespace say what its pods may ask for. */}}
{{- define "slurm.readsNamespaces" -}}
{{- $found := .Values.scheduler.annotatedAccess }}
{{- range .Values.scheduler.access }}{{ if .namespaceLabels }}{{ $found = true }}{{ end }}{{ end }}
{{- if $found }}true{{ end }}
{{- end }}
{{- define "slurm.homeVolume" -}}
{{- $claim := dict "claimName" (.Values.home.existingClaim | default (printf "%s-home" .Release.Name)) }}
{{- .Values.home.volume | default (dict "persistentVolumeClaim" $claim) | toJson }}
{{- end }}
{{- /* The folders that people have besides their homes, in all pods of people: volumes, and where they are mounted. */}}
{{- define "slurm.sharedVolumes" -}}
{{- range $path, $volume := .Values.sharedFolders }}
- {{ merge (dict "name" (printf "shared-%s" (adler32sum $path))) $volume | toJson }}
{{- end }}
{{- end }}
{{- define "slurm.sharedMounts" -}}
{{- range $path, $_ := .Values.sharedFolders }}
- {name: shared-{{ adler32sum $path }}, mountPath: {{ $path }}}
{{- end }}
{{- end }}
{{- /* The NFS servers that have homes or shared folders by the values, in lower case; "*": every one. The chart knows a server behind a
claim only if the values name it. */}}
{{- define "slurm.fileServers" -}}
{{- $servers := list }}
{{- range $volume := prepend (values .Values.sharedFolders) (.Values.home.volume | default dict) }}
{{- $servers = concat $servers (list (($volume.nfs | default dict).server) ((($volume.csi | default dict).volumeAttributes | default dict).server)) }}
{{- end }}
{{- $lower := list }}
{{- range compact (concat $servers .Values.home.protect.servers) }}{{ $lower = append $lower (lower . | trimSuffix ".") }}{{ end }}
{{- without $lower "" | uniq | sortAlpha | toJson }}
{{- end }}
{{- /* Whether each job has a /tmp of its own; empty if not. */}}
{{- define "slurm.privateTmp" -}}
{{- $wanted := .Values.slurmConfig.privateTmp | toString }}
{{- if or (eq $wanted "true") (and (eq $wanted "auto") (eq .Values.slurmConfig.cgroup "auto")) }}true{{ end }}
{{- end }}
{{- define "slurm.confServer" -}}
{{ .Release.Name }}-slurmctld:6817{{ if include "slurm.backupController" . }},{{ .Release.Name }}-slurmctld-1:6817{{ end }}
{{- end }}

{{- /* Whether there is a second slurmctld. It is refused without a volume for both. */}}
{{- define "slurm.backupController" -}}
{{- if eq (int .Values.slurmctld.replicas) 2 }}
{{- if not (include "slurm.sharedState" .) }}
{{- fail "slurmctld.replicas: two slurmctld need a volume that both can mount. Set slurmctld.persistence.accessModes: [ReadWriteMany] and a storageClass that can do this, or slurmctld.persistence.existingClaim" }}
{{- end }}true
{{- end }}
{{- end }}

{{- /* The claim with slurmctld's state if all pods share it; empty if each pod has its own. Refuses a claim that two pods cannot share,
and a change between the two kinds, because no upgrade can change that. */}}
{{- define "slurm.sharedState" -}}
{{- $persistence := .Values.slurmctld.persistence }}
{{- $claim := has "ReadWriteMany" $persistence.accessModes | ternary (printf "%s-state" .Release.Name) "" }}
{{- with $persistence.existingClaim }}
{{- $claim = . }}
{{- $modes := dig "spec" "accessModes" list (lookup "v1" "PersistentVolumeClaim" $.Release.Namespace . | default dict) }}
{{- if and $modes (eq (int $.Values.slurmctld.replicas) 2) (not (has "ReadWriteMany" $modes)) }}
{{- fail (printf "slurmctld.persistence.existingClaim: PersistentVolumeClaim %s has the access mode %s, and two slurmctld need ReadWriteMany" . (join ", " $modes)) }}
{{- end }}
{{- end }}
{{- $set := printf "%s-slurmctld" .Release.Name }}
{{- with lookup "apps/v1" "StatefulSet" .Release.Namespace $set }}
{{- if eq (empty .spec.volumeClaimTemplates) (empty $claim) }}
{{- $own := printf "state-%s-0" $set }}
{{- fail (printf "slurmctld.persistence: with these values slurmctld would keep its state on another volume (%s is the claim of a single slurmctld). First move the state. Stop slurmctld (kubectl -n %s delete statefulset %s; jobs go on), make the new claim, and copy the folder `state` with its owner to it. If all slurmctld share the new claim, name it in slurmctld.persistence.existingClaim. Then upgrade again" $own $.Release.Namespace $set) }}
{{- end }}
{{- end }}
{{- $claim }}
{{- end }}
{{- define "slurm.hooksUrl" -}}{{ if .Values.scheduler.enabled }}http://{{ .Release.Name }}-hooks:8000{{ end }}{{- end }}

{{- /* Labels of every object; call with (dict "root" $ "part" "syncer"). */}}
{{- define "slurm.labels" -}}
{{ include "slurm.selector" . }}
app.kubernetes.io/part-of: sunkpy
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}
{{- define "slurm.selector" -}}
app.kubernetes.io/name: slurm
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- /* The name of one of the chart's PriorityClasses, "control-plane" or "slurmd"; empty when it makes none. */}}
{{- define "slurm.priorityClass" -}}
{{ if .root.Values.priorityClasses.create }}{{ .root.Release.Namespace }}-{{ .root.Release.Name }}-{{ .role }}{{ end }}
{{- end }}

{{- /* Affinity to nodes without slurmd pods: by the label that the operator gives to such nodes, and by labels that values name.
The labels by which NodeSets select are not used: each new NodeSet would restart all of these pods. */}}
{{- define "slurm.offJobs" -}}
{{- $terms := list (dict "key" "sunkpy.dev/nodeset" "operator" "DoesNotExist") }}
{{- range $key, $value := .Values.controlPlane.avoid }}
{{- $terms = append $terms (dict "key" $key "operator" "NotIn" "values" (list $value)) }}
{{- end }}
{{- $preferred := list }}
{{- range $terms }}{{ $preferred = append $preferred (dict "weight" 100 "preference" (dict "matchExpressions" (list .))) }}{{ end }}
{{- if eq .Values.controlPlane.besideJobs "avoid" }}
nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: {{ toJson $preferred }}}
{{- else if eq .Values.controlPlane.besideJobs "never" }}
nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: {{ toJson $terms }}}]}}
{{- end }}
{{- end }}

{{- /* Tolerations of nodes that are closed: because jobs run there (lock.enabled of chart sunkpy), by a drain in Slurm and, with
"cordoned" true, by a cordon. A JSON array. */}}
{{- define "slurm.toleratesClosed" -}}
{{- $keys := list "sunkpy.dev/drain" "sunkpy.dev/lock" }}
{{- if .cordoned }}{{ $keys = prepend $keys "node.kubernetes.io/unschedulable" }}{{ end }}
{{- $all := list }}
{{- range $keys }}{{ $all = append $all (dict "key" . "operator" "Exists" "effect" "NoSchedule") }}{{ end }}
{{- toJson $all }}
{{- end }}

{{- /* Placement of the pods without which Slurm does not work. When all nodes are closed, pods that move must still find a node. Pods
without a volume leave a dead node after a minute, unless values say otherwise. Pods with a volume ("stays" true) stay longer:
docs/design/slurmctld-crash.md. Call with (dict "root" $ "values" … ["stays" true]). */}}
{{- define "slurm.controlPlacement" -}}
{{- $own := .values.tolerations | default list }}
{{- $said := list }}
{{- range concat $own (.root.Values.common.podSpec.tolerations | default list) }}{{ $said = append $said (.key | default "") }}{{ end }}
{{- $all := include "slurm.toleratesClosed" (dict "cordoned" true) | fromJsonArray }}
{{- if not .stays }}
{{- range list "not-ready" "unreachable" }}
{{- $key := printf "node.kubernetes.io/%s" . }}
{{- if not (or (has $key $said) (has "" $said)) }}
{{- $all = append $all (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" 60) }}
{{- end }}
{{- end }}
{{- end }}
{{- $class := .values.priorityClassName | default (include "slurm.priorityClass" (dict "root" .root "role" "control-plane")) }}
{{- $affinity := .values.affinity | default (include "slurm.offJobs" .root | fromYaml) }}
{{- $placed := dict "tolerations" (concat $all $own) "priorityClassName" $class "affinity" $affinity }}
{{- include "sunkpy.placement" (dict "root" .root "values" (merge $placed .values)) }}
{{- end }}

{{- /* The placement of Jobs of install and uninstall: that of the syncer, without the chart's PriorityClass, which does not exist before
an install. */}}
{{- define "slurm.jobPlacement" -}}
{{- $jobs := deepCopy .Values.syncer }}
{{- $closed := include "slurm.toleratesClosed" (dict "cordoned" true) | fromJsonArray }}
{{- $_ := set $jobs "tolerations" (concat (.Values.syncer.tolerations | default list) $closed) }}
{{- include "sunkpy.placement" (dict "root" . "values" $jobs) }}
{{- end }}

{{- /* The data of Slurm's ConfigMap. Checksums are made only from the data, because the labels change with the chart's version. */}}
{{- define "slurm.configData" -}}
{{ (include (print .Template.BasePath "/config.yaml") . | fromYaml).data | toYaml }}
{{- end }}

{{- /* A hook script: the part that both hooks share, the limits, and its own part. Call with (dict "root" $ "name" "prolog"). */}}
{{- define "slurm.hook" -}}
{{- $killWait := .root.Values.slurmConfig.conf.KillWait -}}
#!/bin/bash
{{ .root.Files.Get "files/hooks.sh" }}
: "${SUNKPY_PROLOG_TIMEOUT_S:={{ .root.Values.hooks.prologTimeoutSeconds }}}"
: "${SUNKPY_EPILOG_TIMEOUT_S:={{ .root.Values.hooks.epilogTimeoutSeconds }}}"
: "${SUNKPY_OUTAGE_TIMEOUT_S:={{ .root.Values.hooks.outageTimeoutSeconds }}}"
: "${SUNKPY_REFUSAL_S:=300}"
: "${SUNKPY_KILL_WAIT_S:={{ include "slurm.confValue" ($killWait | kindIs "invalid" | ternary 30 $killWait) }}}"
: "${SUNKPY_CLEAN_TMP:={{ .root.Values.hooks.cleanTmp }}}"
: "${SUNKPY_SCRIPT_TIMEOUT_S:={{ .root.Values.hooks.scriptTimeoutSeconds }}}"

{{ .root.Files.Get (printf "files/%s.sh" .name) }}
{{- end }}

{{- /* Kinds above pods that the scheduler reads: for the sizes of gangs, and for annotations. */}}
{{- define "slurm.ownerKinds" -}}
apps: [replicasets, deployments, statefulsets, daemonsets]
argoproj.io: [workflows, cronworkflows]
batch: [jobs, cronjobs]
batch.paddlepaddle.org: [paddlejobs]
batch.volcano.sh: [jobs]
flink.apache.org: [flinkdeployments, flinksessionjobs]
grove.io: [podcliques, podcliquescalinggroups, podcliquesets]
jobset.x-k8s.io: [jobsets]
kubeflow.org: [jaxjobs, mpijobs, mxjobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
kueue.x-k8s.io: [workloads]
leaderworkerset.x-k8s.io: [leaderworkersets]
ray.io: [rayclusters, rayjobs, rayservices]
scheduler.grove.io: [podgangs]
scheduling.k8s.io: [podgroups, workloads]
scheduling.sigs.k8s.io: [podgroups]
scheduling.volcano.sh: [podgroups]
scheduling.x-k8s.io: [podgroups]
serving.knative.dev: [configurations, revisions, services]
serving.kserve.io: [inferenceservices]
sparkoperator.k8s.io: [scheduledsparkapplications, sparkapplications]
trainer.kubeflow.org: [trainjobs]
{{- end }}

{{- /* The kinds of these that can be suspended: they remove their pods, and make them again later. */}}
{{- define "slurm.suspendableKinds" -}}
batch: [jobs]
jobset.x-k8s.io: [jobsets]
kubeflow.org: [jaxjobs, mpijobs, mxjobs, paddlejobs, pytorchjobs, tfjobs, xgboostjobs]
ray.io: [rayclusters, rayjobs]
sparkoperator.k8s.io: [sparkapplications]
trainer.kubeflow.org: [trainjobs]
{{- end }}

{{- /* Whether the process `accounts` keeps accounts as values say; empty if people do that themselves. */}}
{{- define "slurm.keepsAccounts" -}}{{ if and .Values.accounting.enabled .Values.accounts.enabled }}true{{ end }}{{- end }}

{{- /* Whether slurmdbd is the chart's own (ownSlurmdbd), or that of others (isGuest); both are empty without accounting. */}}
{{- define "slurm.ownSlurmdbd" -}}{{ if and .Values.accounting.enabled (not .Values.accounting.slurmdbd.external.host) }}true{{ end }}{{- end }}
{{- define "slurm.isGuest" -}}{{ if and .Values.accounting.enabled .Values.accounting.slurmdbd.external.host }}true{{ end }}{{- end }}

{{- /* The address of slurmdbd. Refuses a slurmdbd of others as long as it could not be used, or would mix up the records of two clusters. */}}
{{- define "slurm.slurmdbd" -}}
{{- if include "slurm.isGuest" . }}
{{- $path := "accounting.slurmdbd.external" }}
{{- if not (and .Values.keys.existingSlurmSecret .Values.keys.existingJwtSecret) }}
{{- fail (printf "%s: this cluster needs the keys of that slurmdbd. Copy its slurm.key and jwt.key into Secrets of this namespace, and name the Secrets in keys.existingSlurmSecret and keys.existingJwtSecret" $path) }}
{{- end }}
{{- if not .Values.clusterName }}
{{- fail (printf "%s: set clusterName to a name that no other cluster of that slurmdbd has, because slurmdbd mixes the records of clusters with one name" $path) }}
{{- end }}
{{- if .Values.accounts.wanted.qos }}
{{- fail (printf "accounts.wanted.qos: all clusters of a slurmdbd share its QoS. With %s, leave this value out: name the QoS in the values of the release that has the slurmdbd, or make them with sacctmgr" $path) }}
{{- end }}
{{- if and .Values.networkPolicies.enabled (not .Values.accounting.slurmdbd.external.peers) }}
{{- fail (printf "%s.peers: name the pods or addresses of slurmdbd, or the network policies keep slurmdbd out: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}]" $path) }}
{{- end }}
{{- pick .Values.accounting.slurmdbd.external "host" "port" | toYaml }}
{{- else }}
host: {{ .Release.Name }}-slurmdbd
port: 6819
{{- end }}
{{- end }}

{{- /* Whether the chart makes the database; empty if not. */}}
{{- define "slurm.ownDatabase" -}}{{ if and (include "slurm.ownSlurmdbd" .) (not .Values.accounting.database.external.host) }}true{{ end }}{{- end }}
{{- define "slurm.databaseSecret" -}}{{ .Values.accounting.database.existingSecret | default (printf "%s-database" .Release.Name) }}{{- end }}

{{- /* The address of the database, and the user with whom slurmdbd connects. */}}
{{- define "slurm.database" -}}
{{- $external := .Values.accounting.database.external }}
{{- if and $external.host (not .Values.accounting.database.existingSecret) }}
{{- fail "accounting.database.external: name the Secret with the password of this database (key \"password\") in accounting.database.existingSecret" }}
{{- end }}
{{- if $external.host }}
{{- pick $external "host" "port" "name" "user" | toYaml }}
{{- else }}
host: {{ .Release.Name }}-mariadb
port: 3306
name: slurm_acct_db
user: slurm
{{- end }}
{{- end }}

{{- /* The security context of a pod that keeps data on a volume. Call with its uid. */}}
{{- define "slurm.volumeUser" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* Volumes of some storage classes ignore fsGroup and belong to root. Call with (dict "root" $ "image" … "command" …
"mounts" list). */}}
{{- define "slurm.ownVolume" -}}
- name: own-state
  image: {{ .image }}
  imagePullPolicy: {{ .root.Values.imagePullPolicy }}
  command: [bash, -ec, {{ .command | quote }}]
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}
  resources: {requests: {cpu: 10m, memory: 16Mi}}
  volumeMounts: {{- toYaml .mounts | nindent 4 }}
{{- end }}

{{- /* A query with its abbreviations replaced: $own is the selector of this release's series, $gpus the GPUs of a job by uuid, under the
name of dcgm-exporter's label. Call with (list query selector). */}}
{{- define "slurm.seriesOf" -}}
{{- $gpus := `label_replace(sunkpy_job_gpu{job="$slurmjob"}, "UUID", "$1", "uuid", "(.+)")` }}
{{- index . 0 | replace "$own" (index . 1) | replace "$gpus" $gpus }}
{{- end }}
