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
