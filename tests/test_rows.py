"""What users of torch.compile and torch.compiler have, row by row, and the tests that show it here.

Rows are numbered as in the project's table of features: 1.x `compile`, 2.x `torch.compiler` and what torch._dynamo
shows, p.x `precompile`, B backends. The index is checked: every test that it names is there.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
UMBRELLA, DYNAMO = "packages/compiler_api/tests", "packages/dynamo/tests"
FILES = {
    "compile": f"{UMBRELLA}/test_compile.py",
    "rows": "tests/test_compile_rows.py",
    "inside": "tests/test_inside_torch.py",
    "wrong": "tests/test_wrong_calls.py",
    "pages": "tests/test_pages.py",
    "pairings": "tests/test_pairings.py",
    "warm": "tests/test_warm_start.py",
    "modules": f"{UMBRELLA}/test_modules.py",
    "settings": f"{UMBRELLA}/test_settings.py",
    "namespace": f"{UMBRELLA}/test_compiler_namespace.py",
    "configuration": f"{UMBRELLA}/test_configuration.py",
    "regions": f"{UMBRELLA}/test_regions.py",
    "seeing": f"{UMBRELLA}/test_seeing.py",
    "cli": f"{UMBRELLA}/test_cli.py",
    "profiles": f"{UMBRELLA}/test_profiles.py",
    "threads": f"{UMBRELLA}/test_threads.py",
    "aot": f"{UMBRELLA}/test_aot_compile.py",
    "registry": f"{UMBRELLA}/partners/test_registry.py",
    "engines": f"{UMBRELLA}/partners/test_engines.py",
    "capture": f"{UMBRELLA}/precompile/test_capture.py",
    "load": f"{UMBRELLA}/precompile/test_load.py",
    "programs": f"{UMBRELLA}/precompile/test_programs.py",
    "errors": f"{DYNAMO}/api/test_errors_and_limits.py",
    "directives": f"{DYNAMO}/api/test_directives.py",
    "recompiles": f"{DYNAMO}/api/test_recompiles.py",
    "steering": f"{DYNAMO}/api/test_steering.py",
    "stances": f"{DYNAMO}/core/test_stances.py",
    "replay": "packages/inductor/tests/triton/test_replay.py",
}

# row -> what it is, and tests as "file: test test ..."
ROWS: dict[str, tuple[str, str]] = {
    "1.1": (
        "functions, methods, objects",
        "compile: every_kind_of_callable decorated_method_binds; rows: kinds_of_methods",
    ),
    "1.2": (
        "decorator forms",
        "compile: decorator_with_and_without_parentheses classes_compile_the_calls_of_their_instances "
        "kinds_of_methods_stay_what_they_are",
    ),
    "1.3": (
        "compiled modules",
        "modules: class_and_keys parameters_are_shared attributes_go_both_ways deepcopy_is_compiled_and_separate "
        "pickle_compiles_again; rows: compiled_modules_are_copied_and_pickled state_goes_round",
    ),
    "1.4": ("Module.compile in place", "rows: in_place_by_torchs_own_method"),
    "1.5": ("fullgraph", "errors: fullgraph_break_names_id_line_and_hint; wrong: wrong_call"),
    "1.6": ("automatic sizes", "rows: sizes"),
    "1.7": ("dynamic=True, False", "rows: sizes the_limit_is_announced_and_is_an_error_when_asked_for"),
    "1.8": ("backends by name and callable", "compile: bad_arguments_are_told_at_once; registry: unknown_names"),
    "1.9": ("keywords of backends", "compile: custom_backend_gets_graph_inputs_and_keywords"),
    "1.10": ("modes", "rows: every_mode_compiles_and_trains; compile: bad_arguments_are_told_at_once"),
    "1.11": ("options", "rows: options_with_dashes; compile: bad_arguments_are_told_at_once; settings: bad_settings"),
    "1.12": (
        "guard_filter_fn, use_aoti",
        "namespace: guard_filters filters_give_one_answer_for_each_entry; "
        "rows: use_aoti_runs_what_the_packages_hold; settings: options_of_our_own_are_taken_out bad_settings",
    ),
    "1.13": ("disable", "compile: disable_gives_the_original_back; settings: environment_switch"),
    "1.14": (
        "limits of versions",
        "rows: the_limit_is_announced_and_is_an_error_when_asked_for compiled_forms_of_one_function_share_nothing; "
        "recompiles: error_names_the_guard_and_the_line",
    ),
    "1.15": ("names", "compile: names; seeing: regions_and_kernels_in_profiles"),
    "1.16": ("declared sizes", "rows: declared_sizes_cost_one_compile"),
    "1.17": ("versions of Python", "settings: unsupported_python free_threaded_python; compile: unsupported_python"),
    "1.18": (
        "inside other tracers, and nested",
        "inside: torch_compile_sees_one_graph export_sees_the_modules_under_their_names export_without_a_trace_says_so "
        "other_tracers; rows: nested_compile_gives_one_graph a_module_with_compiled_parts",
    ),
    "1.19": (
        "aot_compile",
        "aot: round_trip_with_gradients the_error_names_the_guard modules_are_passed_first sizes_that_are_open "
        "changed_objects_and_made_ones language_model_with_its_cache in_a_fresh_process bodies_of_operators",
    ),
    "1.20": (
        "caches of each callable, threads, signatures",
        "compile: signature_and_documentation_are_kept two_compiled_forms_of_one_function_are_separate; "
        "threads: everything_at_once; errors: hooks",
    ),
    "1.21": (
        "what eager does",
        "rows: exceptions_are_eagers random_numbers_and_the_generators_state strides_aliases_and_gradients "
        "hooks_run_in_order_and_once warnings_of_the_program_are_given",
    ),
    "1.22": ("training", "rows: training_gives_eagers_parameters autocast grad_scaler"),
    "1.23": ("overrides by number", "configuration: graphs_get_other_backends_and_options selectors wrong_rules"),
    "2.1": ("compile", "namespace: compile_is_compile every_name_of_torch_is_here parameters_have_the_names_of_torchs"),
    "2.2": ("reset", "namespace: reset_forgets_what_is_in_the_process; threads: everything_at_once"),
    "2.3": ("allow_in_graph", "namespace: allow_in_graph; directives: allow_in_graph"),
    "2.4": (
        "substitute_in_graph",
        "steering: a_substitute_runs_in_traces_alone calls_with_constants_are_folded_where_that_is_allowed "
        "wrong_substitutes_are_refused",
    ),
    "2.5": ("assume_constant_result", "namespace: assume_constant_result"),
    "2.6": ("list_backends", "compile: list_backends; registry: names_and_tags"),
    "2.7": (
        "disable",
        "namespace: disable; directives: disable; compile: disabled_classes_are_made_and_called_eagerly",
    ),
    "2.8": ("default backend", "compile: default_backend"),
    "2.9": (
        "stances",
        "stances: force_eager_uses_and_makes_nothing eager_on_recompile fail_on_recompile "
        "function_form_nesting_and_decorator inside_a_region_it_is_a_break_and_means_what_it_says; "
        "namespace: stances_take_backends_by_name wrong_stances; threads: stances_hold_in_other_threads_and_nest "
        "blocks_that_end_in_any_order_leave_the_stance_as_it_was",
    ),
    "2.10": ("guard collectives", "namespace: ranks_compile_together"),
    "2.11": (
        "hints about recordings",
        "namespace: hints_about_replays_are_taken_anywhere; replay: a_step_moves_out_what_earlier_steps_keep "
        "a_run_that_was_no_warm_up_is_not_the_last",
    ),
    "2.12": (
        "nested_compile_region",
        "regions: is_the_program_without_the_mark one_subgraph_and_one_kernel_for_many_layers sizes_that_change; "
        "namespace: wrong_regions",
    ),
    "2.13": (
        "nonstrict_trace",
        "steering: the_body_is_not_looked_at modules_are_arguments_and_get_gradients nests_and_registered_classes",
    ),
    "2.14": ("wrap_numpy", "namespace: wrap_numpy_eagerly wrap_numpy_compiled"),
    "2.15": ("is_compiling and the like", "namespace: is_compiling; steering: is_exporting_is_true_for_capture_alone"),
    "2.16": (
        "cache artifacts",
        "namespace: artifacts_carry_everything_to_another_machine artifacts_in_this_process junk_is_no_artifact",
    ),
    "2.17": ("load_compiled_function", "aot: missing_globals modules_of_closure_and_globals in_a_fresh_process"),
    "2.18": ("guard filters", "namespace: guard_filters filters_give_one_answer_for_each_entry"),
    "2.19": (
        "config",
        "configuration: the_order_of_sources patch_is_of_this_thread_and_a_decorator wrong_values; "
        "profiles: dynamic_sources dynamic_values dynamic_values_are_integers unbacked_sources; "
        "pages: the_migration_page_has_every_setting_of_torch_compiler",
    ),
    "2.20": ("torch._dynamo's names", "pages: the_migration_page_has_every_name_of_torch_dynamo; errors: hooks"),
    "p1": ("runs and writes", "capture: gives_what_the_program_gives_and_writes_both_files"),
    "p2": ("single use", "capture: single_use"),
    "p3": (
        "blocks that raise or capture nothing",
        "capture: a_block_that_raises_writes_nothing_but_what_was_saved nothing_captured_is_an_error",
    ),
    "p4": ("save", "capture: a_block_that_raises_writes_nothing_but_what_was_saved single_use"),
    "p5": ("positional only", "capture: positional_arguments_only"),
    "p6": ("programs that hold a model", "capture: programs_that_carry_a_model_are_refused"),
    "p7": ("wrong settings", "capture: wrong_settings"),
    "p8": (
        "the writer",
        "capture: files_keep_their_permissions_and_leave_nothing_beside_them a_failed_write_leaves_the_old_pair",
    ),
    "p9": ("readable source", "load: the_source_is_complete_and_holds_no_weights"),
    "p10": ("the cache is data", "load: no_pickle_in_the_cache"),
    "p11": (
        "files that do not belong together",
        "load: files_that_are_missing_or_no_program a_pair_that_was_tampered_with_is_refused "
        "a_foreign_cache_alone_is_ignored_with_a_warning",
    ),
    "p12": ("load says what it does", "load: load_says_that_it_executes_the_file"),
    "p13": (
        "weights",
        "load: other_weights_of_the_same_kind modules_that_do_not_fit several_modules",
    ),
    "p14": (
        "what a call must be like",
        "load: inputs_that_do_not_fit strides_bind_kernels_and_not_operators python_values_are_part_of_the_program",
    ),
    "p15": (
        "open sizes",
        "programs: any_size_of_an_open_dimension bounds_and_shared_sizes open_sizes_that_are_refused",
    ),
    "p16": ("baked tensors", "capture: what_a_graph_without_baked_tensors_cannot_hold"),
    "p17": (
        "data",
        "capture: what_a_graph_without_baked_tensors_cannot_hold tensors_of_other_kinds_are_refused "
        "numbers_read_from_tensors_stay_variable",
    ),
    "p18": (
        "results for eager alone",
        "capture: results_that_only_the_eager_backend_takes a_class_unknown_to_pytree_is_refused",
    ),
    "p19": (
        "backward inside",
        "programs: backward_inside frozen_parameters_stay_without_gradient "
        "gradients_that_would_go_elsewhere_are_refused gradients_as_results",
    ),
    "p20": (
        "effects",
        "programs: mutation_and_aliasing random_numbers_follow_the_generator buffers_that_the_program_replaces; "
        "capture: effects_happen_once",
    ),
    "p21": ("threads, gradients", "capture: captures_of_two_threads_do_not_mix the_examples_gradients_stay"),
    "p22": ("summary", "capture: summary"),
    "p23": ("starts at once", "load: a_fresh_process_without_a_compiler_starts_at_once"),
    "B0": ("names become backends", "registry: an_entry_point_is_loaded_when_it_is_used names_and_tags unknown_names"),
    "B ours": ("our backends", "registry: every_backend_of_ours debug_backends_find_what_they_are_for"),
    "B absent": (
        "names with nothing behind them",
        "registry: names_without_anything_behind_them_say_why the_needs_of_intel_processors_are_named",
    ),
    "B engines": (
        "openvino, tvm, onnxruntime",
        "engines: inference_of_a_network_with_batch_norm new_sizes_and_weights training "
        "what_an_engine_cannot_take_is_reported options_of_openvino options_of_onnxrt",
    ),
    "B adapters": (
        "tensorrt, xla, ipex",
        "registry: tensorrt_is_given_the_graph_and_told_not_to_fall_back ipex_compiles_each_graph "
        "xla_compiles_at_the_first_run_with_real_inputs",
    ),
    "host": ("torch.compile as host, and pairings", "pairings: pairing every_backend_under_our_front_end"),
    "seeing": (
        "command line, logs, folder, profiles, progress",
        "cli: env_prints_versions version; seeing: explain report mistakes_on_the_command_line cache_commands "
        "each_artifact_is_logged_when_asked_for the_environment_variable debug_folder regions_and_kernels_in_profiles "
        "progress_is_shown_late_and_on_terminals_alone a_compilation_that_takes_long_is_shown",
    ),
    "wrong calls": ("forty wrong calls", "wrong: wrong_call there_are_forty nothing_is_left_behind"),
}
WANTED = [*(f"1.{n}" for n in range(1, 24)), *(f"2.{n}" for n in range(1, 21)), *(f"p{n}" for n in range(1, 24)), "B0"]


def named_by(row):
    """(file, name) of each test that the index names for a row."""
    for group in ROWS[row][1].split(";"):
        file, _, names = group.strip().partition(": ")
        for name in names.split():
            yield FILES[file], f"test_{name}"


def test_every_row_is_there():
    assert set(WANTED) <= ROWS.keys()


@pytest.mark.parametrize("row", ROWS)
def test_the_tests_of_a_row_are_there(row):
    for file, name in named_by(row):
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file} has no {name}"
