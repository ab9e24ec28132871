"""The audit of every night as an Airflow DAG (3.x), with every exit code told apart.

Needs a checkout of this project, or an image with it, on the workers, and three Airflow variables; see docs/schedulers.md.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

HOME = "{{ var.value.get('replica_audit_home', '/opt/replica-audit') }}"
INPUT = "{{ var.value.get('replica_audit_input', '/backup/brokers') }}"
WAREHOUSE = "{{ var.value.get('replica_audit_warehouse', '/srv/audits') }}"
# A try of a task makes the run of the tries before it anew, and the tasks after it look at this run and no other.
RUN_ID = "airflow-{{ ts_nodash }}"

INCOMPLETE = 3  # nothing found, but not everything could be compared

with DAG(
    dag_id="replica_audit_nightly",
    description="Audit the replicas' logs of every Kafka cluster in the nightly copies",
    schedule="30 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["kafka"],
) as dag:
    # Exit code 1, findings, and 2, an audit that could not be made, fail the task; 3 skips it, and so shows as neither green nor red.
    audit = BashOperator(
        task_id="audit",
        bash_command=(
            f"exec {HOME}/spark-submit.sh audit --input {INPUT} --warehouse {WAREHOUSE} --run-id {RUN_ID} --take-over "
            "--run-date {{ ds }} --fail-on critical"
        ),
        skip_on_exit_code=INCOMPLETE,
        # Findings are no reason to audit again.
        retries=0,
        execution_timeout=timedelta(hours=6),
    )
    # The page is made whatever the audit found, and fails only if there is no run: the audit has failed with exit code 2 then.
    page = BashOperator(
        task_id="page",
        bash_command=f"exec {HOME}/spark-submit.sh report --warehouse {WAREHOUSE} --run-id {RUN_ID} --output {WAREHOUSE}/last.html",
        trigger_rule="all_done",
        retries=1,
        retry_delay=timedelta(minutes=5),
    )
    audit >> page
