"""What holds for every driver holds for each engine: the same tests as for bubblewrap.

Left out are those that look at how bubblewrap itself makes its walls.
"""

import pytest

from tests.sandbox.test_ends import *  # noqa: F403
from tests.sandbox.test_errand import (  # noqa: F401
    test_nobody_who_wants_the_device_back_waits_for_large_inputs,
    test_what_a_run_leaves_is_found_also_if_it_failed,
    test_what_can_not_be_brought_ends_the_run_before_it_begins,
    test_what_is_brought_belongs_to_the_task_and_what_it_leaves_is_found,
)
from tests.sandbox.test_isolation import (  # noqa: F401
    test_each_run_of_root_is_another_uid,
    test_every_variable_arrives_as_it_was_given,
    test_more_variables_than_the_kernel_takes_are_a_sentence,
    test_mounts_are_read_only_unless_they_say_otherwise,
    test_no_user_of_the_machine_reads_the_variables_off_a_command_line,
    test_nobody_in_particular_with_no_capability,
    test_only_the_loopback_and_not_the_hosts,
    test_runs_share_nothing,
    test_the_environment_is_only_what_was_given,
)
from tests.sandbox.test_opencl import *  # noqa: F403
from tests.sandbox.test_recall import (  # noqa: F401
    test_a_second_wish_brings_the_end_nearer_and_keeps_the_reason,
    test_every_process_is_asked_and_may_finish,
    test_what_was_called_back_before_never_begins,
    test_who_does_not_listen_is_killed_when_the_grace_is_over,
    test_who_has_nothing_to_say_ends_at_once,
)
from tests.sandbox.test_syscalls import (  # noqa: F401
    test_a_call_of_another_architecture_ends_the_process,
    test_ordinary_programs_do_not_notice,
    test_the_kernel_refuses_inside,
)
from tests.sandbox.test_walls import (  # noqa: F401
    test_a_wall_has_its_own_reason,
    test_files_at_work_do_not_count_as_memory,
    test_nothing_but_the_work_directory_can_be_written,
    test_shared_memory_counts_as_memory,
    test_sleeping_past_the_limit,
    test_the_cut_of_a_log_is_marked_and_exact,
)

pytestmark = pytest.mark.long
