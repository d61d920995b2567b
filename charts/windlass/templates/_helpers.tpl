{{- /* Each object asks for it, so old values are refused before a template meets one that is not there. */ -}}
{{- define "windlass.name" -}}
{{- include "windlass.renamed" . -}}
{{- $chart := .Values.nameOverride | default "windlass" -}}
{{- $name := ternary .Release.Name (printf "%s-%s" .Release.Name $chart) (contains $chart .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- /* Values of earlier charts, refused with the name that they have now; --reuse-values brings earlier defaults. */ -}}
{{- define "windlass.renamed" -}}
{{- $unset := "; where you never set it, upgrade with --reset-then-reuse-values" -}}
{{- if hasKey .Values "replicas" }}{{ fail (print "the value replicas is called replicaCount" $unset) }}{{ end -}}
{{- if hasKey .Values.image "pullSecrets" }}
{{- fail (print "the value image.pullSecrets is called imagePullSecrets" $unset) }}
{{- end -}}
{{- if hasKey .Values "watchNamespace" }}
{{- fail (print "the value watchNamespace is called watchNamespaces and is a list" $unset) }}
{{- end -}}
{{- end -}}

{{- /* Of objects without a namespace: two operators in two namespaces do not meet. No name holds a colon. */ -}}
{{- define "windlass.clusterName" -}}
{{ include "windlass.name" . }}:{{ .Release.Namespace }}
{{- end -}}

{{- define "windlass.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "windlass.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: windlass-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/component: operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "windlass.prefix" -}}
{{- with .Values.global.repository }}{{ printf "%s/" . }}{{ end -}}
{{- end -}}

{{- define "windlass.image" -}}
{{ include "windlass.prefix" . }}{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}

{{/* An image that the operator gives to serving pods: (list ROOT REPOSITORY DIGEST). The operator adds the tag where no digest is. */}}
{{- define "windlass.served" -}}
{{ include "windlass.prefix" (index . 0) }}{{ index . 1 }}{{ with index . 2 }}@{{ . }}{{ end }}
{{- end -}}

{{/* The Lease of this release's operators. */}}
{{- define "windlass.lease" -}}
{{ include "windlass.name" . }}-operator
{{- end }}

{{- define "windlass.consoleSelector" -}}
app.kubernetes.io/name: windlass-console
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "windlass.consoleLabels" -}}
{{ include "windlass.consoleSelector" . }}
app.kubernetes.io/part-of: windlass
app.kubernetes.io/component: console
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "windlass.consoleImage" -}}
{{- $image := .Values.console.image -}}
{{ include "windlass.prefix" . }}{{ $image.repository }}{{ with $image.digest }}@{{ . }}{{ else }}:{{ $image.tag | default .Chart.AppVersion }}{{ end }}
{{- end -}}
