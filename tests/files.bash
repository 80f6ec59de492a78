# Sourced: files that say what a model's parameters are, and what columns mean.

# layouts FILE...: d8 has 8 dense parameters, d8w2 a table of rows of 2 besides, w2 only that. All begin at zero.
layouts() {
	local path dense width
	for path; do
		IFS=dw read -r _ dense width <<<"${path##*/}"
		[[ ${path##*/} != w* ]] || { width=$dense dense=; }
		{
			echo 'layout version=1 seed=0'
			[ -z "$dense" ] || echo "tensor name=dense rows=$dense cols=1 init=zero scale=0"
			[ -z "$width" ] || echo "table name=table width=$width zero-columns=$width scale=0"
		} >"$path"
	done
}

# audit_layout ROWS: `layout` of the model audit, which has a row of the table for each sample, and $counts dense
# parameters besides, if that is set.
audit_layout() {
	echo 'layout version=1 seed=1'
	[ -z "${counts-}" ] || echo "tensor name=counts rows=$1 cols=$counts init=zero scale=0 update=add"
	echo "table name=audit width=1 rows=$1 zero-columns=1 scale=0 update=add export=dense"
} >layout

# schema_file DENSE SPARSE [KEY=VALUE...]: `schema`: the columns of a csv, separated by commas, its label,
# and nothing is scaled; or what its first record says instead.
schema_file() {
	local dense=$1 sparse=$2
	shift 2
	{
		echo "schema version=1 ${*:-format=csv label=label scale=none}"
		[ -z "$dense" ] || printf 'dense name=%s\n' ${dense//,/ }
		[ -z "$sparse" ] || printf 'sparse name=%s\n' ${sparse//,/ }
		echo end
	} >schema
}

# model_file NAME DENSE FIELDS [ROWS [EMBED HIDDEN]]: the file NAME, for so many columns of numbers and of categories.
# Of audit it has $counts, too.
model_file() {
	echo "model version=1 name=$1 dense-inputs=$2 fields=$3 embed=${5:-1} hidden=${6-} hash-bits=20 l2=0 seed=1" \
		"samples=${4:-0}${counts+ counts=$counts}" >"$1"
}
