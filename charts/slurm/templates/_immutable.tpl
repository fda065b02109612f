{{- /* The same in all charts: changes that no upgrade can make are refused before half of the release is changed. This is the spec of a
claim: its size can only grow, that of a StatefulSet's claim cannot, and its class stays. Call with (dict "root" $ "path" "home" "values" .Values.home
"modes" its accessModes "claim" its name ["set" name of the StatefulSet that has it as template] ["size" of a new volume where values
name none: one that is there keeps its own]). */}}
{{- define "sunkpy.claimSpec" -}}
{{- $namespace := .root.Release.Namespace }}
{{- $size := .values.size }}
{{- $there := dict }}
{{- $owner := printf "PersistentVolumeClaim %s" .claim }}
{{- $gone := $owner }}
{{- if .set }}
{{- $owner = printf "StatefulSet %s" .set }}
{{- $gone = printf "%s and PersistentVolumeClaim %s-%s-0" $owner .claim .set }}
{{- range dig "spec" "volumeClaimTemplates" list (lookup "apps/v1" "StatefulSet" $namespace .set | default dict) }}{{ $there = .spec }}{{ end }}
{{- else }}
{{- $there = dig "spec" dict (lookup "v1" "PersistentVolumeClaim" $namespace .claim | default dict) }}
{{- end }}
{{- $size = $size | default (dig "resources" "requests" "storage" "" $there) | default .size }}
{{- with dig "resources" "requests" "storage" "" $there }}
{{- $grows := subf (include "sunkpy.bytes" $size | float64) (include "sunkpy.bytes" . | float64) }}
{{- if and $.set (ne $grows 0.0) }}
{{- fail (printf "%s.size: %s, but the volume was made with %s, and no upgrade can change that. To enlarge the volume: kubectl -n %s patch pvc %s-%s-0 -p '{\"spec\":{\"resources\":{\"requests\":{\"storage\":\"%s\"}}}}', then kubectl -n %s delete statefulset %s --cascade=orphan, and upgrade again" $.path $size . $namespace $.claim $.set $size $namespace $.set) }}
{{- else if lt $grows 0.0 }}
{{- fail (printf "%s.size: %s, but PersistentVolumeClaim %s has %s, and no volume can become smaller: set at least %s" $.path $size $.claim . .) }}
{{- end }}
{{- end }}
{{- $has := $there.storageClassName | default "" }}
{{- $class := .values.storageClass | default $has }}
{{- /* Kubernetes lets a claim without a class get one. */}}
{{- if and $class (ne $class $has) (ternary $there $has (hasKey . "set")) }}
{{- $move := hasKey .values "existingClaim" | ternary (printf "copy the data to a claim of yours and name it in %s.existingClaim" .path) (printf "save the data elsewhere, delete %s, and upgrade again" $gone) }}
{{- if not (or .set (dig "volumeName" "" $there)) }}{{ $move = printf "delete the claim, which has no volume yet, and upgrade again: kubectl -n %s delete pvc %s" $namespace .claim }}{{ end }}
{{- fail (printf "%s.storageClass: %s, but %s has %s, and Kubernetes cannot change the class of a claim: set %s, or %s" .path $class $owner ($has | default "none (\"\")") ($has | default "\"\"") $move) }}
{{- end -}}
accessModes: {{ toJson .modes }}
{{- with hasKey . "set" | ternary $class .named }}
storageClassName: {{ . | quote }}
{{- end }}
resources: {requests: {storage: {{ $size }}}}
{{- end }}

{{- /* A claim that outlives its release, with the same arguments, its labels and whether it is wanted. Once it has a volume it
stays in the manifest, wanted or not. Helm would keep a claim that is left out. But a rollback that has the claim again would remove
the fields that the cluster wrote into it, which Kubernetes refuses. The same holds for a class that helm did not write. */}}
{{- define "sunkpy.claim" -}}
{{- $there := lookup "v1" "PersistentVolumeClaim" .root.Release.Namespace .claim | default dict }}
{{- $named := ternary "" .values.storageClass (hasKey (dig "spec" dict $there) "storageClassName") }}
{{- range dig "metadata" "managedFields" list $there }}
{{- if and (contains "helm" .manager) (dig "f:spec" "f:storageClassName" nil .fieldsV1 | kindIs "map") }}{{ $named = $there.spec.storageClassName }}{{ end }}
{{- end }}
{{- $ours := eq .root.Release.Name (dig "metadata" "annotations" "meta.helm.sh/release-name" "" $there) }}
{{- if or .wanted (and $ours (dig "spec" "volumeName" "" $there)) -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .claim }}
  labels: {{- .labels | nindent 4 }}
  annotations: {helm.sh/resource-policy: keep, argocd.argoproj.io/sync-options: Prune=false}
spec:
  {{- include "sunkpy.claimSpec" (merge (dict "named" $named) .) | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A quantity as a number, because Kubernetes writes 1024Mi as 1Gi. */}}
{{- define "sunkpy.bytes" -}}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 }}
{{- $number := regexFind "^[0-9.]+" . }}
{{- printf "%.0f" (mulf (float64 $number) (float64 (get $units (trimPrefix $number .)))) }}
{{- end }}

{{- /* A StatefulSet that makes its pods in order waits for ever for the pod of a bad release, so a rollback would not heal it.
A StatefulSet that was made with another policy keeps it, because no upgrade can change it. Call with (dict "root" $ "set" its name). */}}
{{- define "sunkpy.podManagement" -}}
{{- dig "spec" "podManagementPolicy" "Parallel" (lookup "apps/v1" "StatefulSet" .root.Release.Namespace .set | default dict) }}
{{- end }}

{{- /* The value of a PriorityClass, which no upgrade can change either. Call with (dict "path" "priorityClasses.slurmd" "name" its name "value" …). */}}
{{- define "sunkpy.priorityValue" -}}
{{- $has := lookup "scheduling.k8s.io/v1" "PriorityClass" "" .name }}
{{- if and $has (ne (int64 $has.value) (int64 .value)) }}
{{- fail (printf "%s: %d, but PriorityClass %s has %d, and Kubernetes cannot change the value of a PriorityClass: kubectl delete priorityclass %s (pods keep their priority), and upgrade again" .path (int64 .value) .name (int64 $has.value) .name) }}
{{- end }}
{{- int64 .value }}
{{- end }}
