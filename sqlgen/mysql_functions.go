package sqlgen

import "strings"

// mysqlOwnFunctions are the functions of MySQL and MariaDB: they write nothing
// that the fence protects. One that is missing here is only dearer.
var mysqlOwnFunctions = words(`
abs acos add_months adddate addtime aes_decrypt aes_encrypt against any_value ascii asin atan atan2 avg benchmark bin bin_to_uuid binlog_gtid_pos
bit_and bit_count bit_length bit_or bit_xor cast ceil ceiling char char_length character_length charset chr coalesce coercibility collation
column_check column_exists column_json column_list compress concat concat_operator_oracle concat_ws connection_id conv convert convert_tz cos cot
count crc32 crc32c cume_dist curdate current_date current_role current_time current_timestamp current_user curtime database date date_add date_format
date_sub datediff day dayname dayofmonth dayofweek dayofyear decode decode_histogram decode_oracle default degrees dense_rank des_decrypt des_encrypt
distance elt encode encrypt exists exp export_set extract extractvalue field find_in_set first_value floor format format_bytes format_pico_time
found_rows from_base64 from_days from_unixtime geometrycollection get_format get_lock greatest group_concat grouping gtid_subset gtid_subtract hex
hour icu_version if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval is_free_lock is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6
is_used_lock is_uuid isnull json_array json_array_append json_array_insert json_array_intersect json_arrayagg json_compact json_contains
json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert json_key_value json_keys json_length json_loose
json_merge json_merge_patch json_merge_preserve json_normalize json_object json_object_filter_keys json_object_to_array json_objectagg json_overlaps
json_pretty json_query json_quote json_remove json_replace json_schema_valid json_schema_validation_report json_search json_set json_storage_free
json_storage_size json_table json_type json_unquote json_valid json_value lag last_day last_insert_id last_value lastval lcase lead least left length
lengthb linestring ln load_file localtime localtimestamp locate log log10 log2 lower lpad lpad_oracle ltrim ltrim_oracle make_set makedate maketime
master_gtid_wait master_pos_wait match max mbrcontains mbrcoveredby mbrcovers mbrdisjoint mbrequals mbrintersects mbroverlaps mbrtouches mbrwithin md5
median member microsecond mid min minute mod month monthname multilinestring multipoint multipolygon name_const natural_sort_key now nth_value ntile
nullif nvl nvl2 oct octet_length old_password ord password percent_rank percentile_cont percentile_disc period_add period_diff pi point polygon
position pow power ps_current_thread_id ps_thread_id quarter quote radians rand random_bytes rank regexp_instr regexp_like regexp_replace
regexp_substr release_all_locks release_lock repeat replace replace_oracle reverse right roles_graphml round row_count row_number rownum rpad
rpad_oracle rtrim rtrim_oracle schema schemas sec_to_time second session_user sformat sha sha1 sha2 sign sin sleep soundex source_pos_wait space sqrt
st_area st_asbinary st_asgeojson st_astext st_aswkb st_aswkt st_boundary st_buffer st_centroid st_collect st_contains st_convexhull st_crosses
st_difference st_dimension st_disjoint st_distance st_distance_sphere st_endpoint st_envelope st_equals st_exteriorring st_geohash st_geometryn
st_geometrytype st_geomfromgeojson st_geomfromtext st_geomfromwkb st_interiorringn st_intersection st_intersects st_isclosed st_isempty st_issimple
st_isvalid st_latfromgeohash st_latitude st_length st_longfromgeohash st_longitude st_makeenvelope st_numgeometries st_numinteriorrings st_numpoints
st_overlaps st_pointfromgeohash st_pointfromtext st_pointn st_simplify st_srid st_startpoint st_swapxy st_symdifference st_touches st_transform
st_union st_validate st_within st_x st_y statement_digest statement_digest_text std stddev stddev_pop stddev_samp str_to_date strcmp string_to_vector
subdate substr substr_oracle substring substring_index subtime sum sys_guid sysdate system_user tan time time_format time_to_sec timediff timestamp
timestampadd timestampdiff to_base64 to_char to_days to_number to_seconds trim trim_oracle truncate ucase uncompress uncompressed_length unhex
unix_timestamp updatexml upper user utc_date utc_time utc_timestamp uuid uuid_short uuid_to_bin uuid_v4 uuid_v7 value values var_pop var_samp variance
vec_distance vec_distance_cosine vec_distance_euclidean vec_fromtext vec_totext vector_dim vector_to_string version wait_for_executed_gtid_set week
weekday weekofyear weight_string wsrep_last_seen_gtid wsrep_last_written_gtid wsrep_sync_wait_upto_gtid year yearweek
`)

// mysqlBeforeBracket are the words that stand in front of a bracket and call
// nothing.
var mysqlBeforeBracket = words(`
all and any array as between bigint binary blob by case character columns cube datetime dec decimal distinct div double else end escape except fixed
float for force from group having ignore in index int integer intersect into is join json key lateral like limit materialized minus national nchar
nested not numeric nvarchar of on or order over partition path precision real recursive regexp returning rlike rollup row select separator set signed
smallint some sounds text then tinyint union unsigned update use using varbinary varchar when where with within xor
`)

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// callsForeign reports whether the range calls a function that the server does
// not bring. Such a one may write, and is executed whatever the fence says, where
// it stands in a derived table or is taken for a constant.
func (w *walker) callsForeign(lo, hi int) bool {
	for i := lo; i+1 < hi; i++ {
		if !w.isPunct(i+1, hi, '(') || w.tokens[i].kind != tokenWord && w.tokens[i].kind != tokenQuoted {
			continue
		}
		if i > lo {
			before := &w.tokens[i-1]
			if before.word == kwAs || before.punct == ')' { // the columns of an alias
				continue
			}
			if before.punct == '.' {
				return true
			}
		}
		if w.tokens[i].kind == tokenWord {
			if name := strings.ToLower(w.spelled(i)); mysqlOwnFunctions[name] || mysqlBeforeBracket[name] {
				continue
			}
		}
		if j := w.next(i + 1); j < hi && w.tokens[j].word == kwAs && w.isPunct(j+1, hi, '(') { // a member of a WITH list
			continue
		}
		return true
	}
	return false
}
