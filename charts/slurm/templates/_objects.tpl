{{- /* The same in all charts; a test compares. The objects of a file of the chart, with `common` and `patches` of the values applied.
Call with (dict "root" $ "of" name of the template with its objects). */}}
{{- define "sunkpy.objects" -}}
{{- $text := include .of .root }}
{{- $values := .root.Values }}
{{- $podSpec := include "sunkpy.given" $values.common.podSpec | fromJson }}
{{- $container := include "sunkpy.given" $values.common.container | fromJson }}
{{- if not (or $values.patches $values.common.labels $values.common.annotations $podSpec $container) }}
{{- $text }}
{{- else }}
{{- range include "sunkpy.split" $text | fromJsonArray }}
{{- $object := . }}
{{- $_ := set $object "metadata" (include "sunkpy.metadata" (list .metadata $values.common) | fromJson) }}
{{- range list (dig "spec" "template" dict .) (dig "spec" "jobTemplate" "spec" "template" dict .) }}
{{- if .spec }}
{{- $_ := set . "metadata" (include "sunkpy.metadata" (list .metadata $values.common) | fromJson) }}
{{- if has $object.kind (list "CronJob" "DaemonSet" "Deployment" "Job" "NodeSet" "StatefulSet") }}
{{- $_ := set . "spec" (include "sunkpy.podSpec" (list .spec $podSpec $container) | fromJson) }}
{{- end }}
{{- end }}
{{- end }}
{{- $name := include "sunkpy.patchName" (list $.root .) }}
{{- with get $values.patches $name }}
{{- $object = (include "sunkpy.merged" (list $object .) | fromJson).value }}
{{- include "sunkpy.checkVolumes" (list (printf "patches.%s: volume" $name) (dig "spec" "template" "spec" "volumes" list $object)) }}
{{- if ne (include "sunkpy.patchName" (list $.root $object)) $name }}{{ fail (printf "patches.%s: a patch cannot change kind or name of an object" $name) }}{{ end }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The objects in a YAML text, as a JSON array. */}}
{{- define "sunkpy.split" -}}
{{- $objects := list }}
{{- range regexSplit "(?m)^---\\s*$" . -1 }}
{{- with printf "%s\n" . | fromYaml }}
{{- if not (hasKey . "kind") }}{{ fail (printf "this has no kind, so it is not an object of Kubernetes: %s" (toJson .)) }}{{ end }}
{{- $objects = append $objects . }}
{{- end }}
{{- end }}
{{- toJson $objects }}
{{- end }}

{{- /* The name of an object in `patches`: its kind, and its name without namespace and release. */}}
{{- define "sunkpy.patchName" -}}
{{- $release := (index . 0).Release }}
{{- with index . 1 }}{{ .kind }}/{{ .metadata.name | trimPrefix (printf "%s-" $release.Namespace) | trimPrefix (printf "%s-" $release.Name) }}{{ end }}
{{- end }}

{{- /* Metadata with labels and annotations that all objects have. */}}
{{- define "sunkpy.metadata" -}}
{{- $metadata := deepCopy (index . 0 | default dict) }}
{{- range $key, $values := pick (index . 1) "labels" "annotations" }}
{{- with $values }}{{ $_ := set $metadata $key (merge (get $metadata $key | default dict) .) }}{{ end }}
{{- end }}
{{- toJson $metadata }}
{{- end }}

{{- /* The entries of a map that are not empty. */}}
{{- define "sunkpy.given" -}}
{{- $given := dict }}
{{- range $key, $value := . }}{{ with $value }}{{ $_ := set $given $key . }}{{ end }}{{ end }}
{{- toJson $given }}
{{- end }}

{{- /* A pod's spec, with the fields of common.podSpec and common.container that it does not set itself. Tolerations add up. */}}
{{- define "sunkpy.podSpec" -}}
{{- $container := index . 2 }}
{{- $spec := (include "sunkpy.merged" (list (index . 1) (index . 0)) | fromJson).value }}
{{- with (index . 1).tolerations }}{{ $_ := set $spec "tolerations" (concat ((index $ 0).tolerations | default list) . | uniq) }}{{ end }}
{{- range $containers := list "initContainers" "containers" }}
{{- $all := list }}
{{- range get $spec . | default list }}{{ $all = append $all (include "sunkpy.merged" (list $container .) | fromJson).value }}{{ end }}
{{- with $all }}{{ $_ := set $spec $containers . }}{{ end }}
{{- end }}
{{- include "sunkpy.checkVolumes" (list "common.podSpec.volumes:" $spec.volumes) }}
{{- toJson $spec }}
{{- end }}

{{- /* Refuse values that give one of the chart's volumes a second source. Call with (list the path of the values, volumes). */}}
{{- define "sunkpy.checkVolumes" -}}
{{- range index . 1 }}
{{- if gt (len .) 2 }}{{ fail (printf "%s %s has several sources: %s. If the chart has a volume of this name already, choose another name" (index $ 0) .name (keys (omit . "name") | sortAlpha | join ", ")) }}{{ end }}
{{- end }}
{{- end }}

{{- /* {value: the first with the second on top}. Maps are merged by key, and lists whose entries have a name (volumeMounts:
a mountPath) by the name. Other lists are replaced, and null removes a key. */}}
{{- define "sunkpy.merged" -}}
{{- $ours := index . 0 }}
{{- $theirs := index . 1 }}
{{- $merged := $theirs }}
{{- if and (kindIs "map" $ours) (kindIs "map" $theirs) }}
{{- $merged = deepCopy $ours }}
{{- range $key, $value := $theirs }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $merged $key }}
{{- else }}{{ $_ := set $merged $key (include "sunkpy.merged" (list (get $merged $key) $value) | fromJson).value }}{{ end }}
{{- end }}
{{- else if and (kindIs "slice" $ours) (kindIs "slice" $theirs) }}
{{- $by := include "sunkpy.keyOf" (concat $ours $theirs) }}
{{- if $by }}
{{- $names := list }}
{{- $named := dict }}
{{- range concat $ours $theirs }}
{{- $name := get . $by }}
{{- $names = append $names $name }}
{{- $_ := set $named $name (include "sunkpy.merged" (list (get $named $name | default dict) .) | fromJson).value }}
{{- end }}
{{- $merged = list }}
{{- range uniq $names }}{{ $merged = append $merged (get $named .) }}{{ end }}
{{- end }}
{{- end }}
{{- dict "value" $merged | toJson }}
{{- end }}

{{- /* The key that identifies the entries of a list, `name` or `mountPath`; empty for other lists. */}}
{{- define "sunkpy.keyOf" -}}
{{- $things := . }}
{{- $by := "" }}
{{- range $key := list "name" "mountPath" }}
{{- $all := true }}
{{- range $things }}{{ if not (and (kindIs "map" .) (hasKey . $key)) }}{{ $all = false }}{{ end }}{{ end }}
{{- if $all }}{{ $by = $key }}{{ end }}
{{- end }}
{{- $by }}
{{- end }}

{{- /* Refuse patches of objects that the release does not have. Call with (dict "root" $ "files" names of the templates). */}}
{{- define "sunkpy.checkPatches" -}}
{{- $root := .root }}
{{- if $root.Values.patches }}
{{- $names := list }}
{{- range .files }}
{{- range include "sunkpy.split" (include . $root) | fromJsonArray }}{{ $names = append $names (include "sunkpy.patchName" (list $root .)) }}{{ end }}
{{- end }}
{{- range $name, $_ := $root.Values.patches }}
{{- if not (has $name $names) }}{{ fail (printf "patches.%s: the release has no such object. It has these: %s" $name ($names | sortAlpha | join ", ")) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Refuse an empty image: a default could belong to anybody, whose program would run privileged. Call with a dict of key and
image. */}}
{{- define "sunkpy.needImages" -}}
{{- $empty := list }}
{{- range $key, $image := . }}{{ if not $image }}{{ $empty = append $empty $key }}{{ end }}{{ end }}
{{- with $empty }}{{ fail (printf "%s: set this to an image of yours. Only the chart of a release names images; the chart in the repository names none. `make images PUSH=registry.example.com/sunkpy` builds and pushes all images, and prints these lines for your values (docs/tasks/build-images.md)" (join ", " .)) }}{{ end }}
{{- end }}

{{- /* Refuse an image of sunkpy whose tag names another version than the chart's: it may not know its settings. */}}
{{- define "sunkpy.checkImage" -}}
{{- $chart := (index . 0).Chart }}
{{- $minor := regexFind "^[0-9]+\\.[0-9]+" $chart.Version }}
{{- with regexFind "^[0-9]{1,2}\\.[0-9]+\\.[0-9]+" (index . 2 | splitList "@" | first | regexFind "[^:/]*$") }}
{{- if not (hasPrefix (print $minor ".") .) }}{{ fail (printf "%s: the image is of sunkpy %s, but chart %s is of %s. Use an image and a chart of the same version. helm upgrade --reuse-values keeps the image of the earlier release" (index $ 1) . $chart.Name $chart.Version) }}{{ end }}
{{- end }}
{{- end }}
