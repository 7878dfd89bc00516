//! Programs that the database has under an older identity of this machine.
//!
//! Older versions of pinfold included the sizes of the memory in the identity of a machine. The sizes change with
//! kernel updates and with hotplug, so one machine has several old identities, and pinfold cannot compute them again. A
//! stored machine counts as this one if it has the same name and this machine has all PUs of its observations. Its
//! programs get the current identity, once and in one transaction.

use crate::placements::is_made;
use crate::program::MachineKey;
use crate::runs;
use crate::schema::StoreError;
use crate::store::Store;
use pinfold_core::PuSet;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

/// Old identities are 32 hexadecimal digits; `MachineKey::new` makes current ones.
const OLD: &str = "machine_name = ?1 AND simulated = ?2 AND length(machine) = 32";

impl Store {
    /// Gives the programs under older identities of `machine` its current identity, and returns their number. The
    /// machine has these PUs.
    ///
    /// # Errors
    ///
    /// The database cannot be read or written.
    pub fn adopt(&mut self, machine: &MachineKey, pus: &PuSet) -> Result<usize, StoreError> {
        let query = format!("SELECT EXISTS (SELECT 1 FROM program WHERE {OLD})");
        let about = params![machine.name, machine.simulated];
        if !self.connection.query_row(&query, about, |row| row.get(0))? {
            return Ok(0);
        }
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let old: Vec<i64> = transaction
            .prepare(&format!("SELECT id FROM program WHERE {OLD} ORDER BY id"))?
            .query_map(params![machine.name, machine.simulated], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        let mut adopted = 0;
        for program in old {
            if ran_within(&transaction, program, pus)? {
                give_to(&transaction, program, machine)?;
                adopted += 1;
            }
        }
        transaction.commit()?;
        Ok(adopted)
    }
}

/// Whether all observations of a program are on these PUs.
fn ran_within(connection: &Connection, program: i64, pus: &PuSet) -> Result<bool, rusqlite::Error> {
    let of_placements = if is_made(connection)? {
        "UNION SELECT pus FROM placement WHERE program = ?1"
    } else {
        ""
    };
    let mut query = connection.prepare(&format!("SELECT pus FROM sample WHERE program = ?1 {of_placements}"))?;
    let mut rows = query.query([program])?;
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        // It is empty for unpinned threads.
        let known = PuSet::parse_ordered(&text).unwrap_or_default();
        if known.iter().any(|&pu| !pus.contains(pu)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Gives a program the identity of the machine. If the database has the program on this machine too, the later choices
/// and placements stay.
fn give_to(connection: &Connection, program: i64, machine: &MachineKey) -> Result<(), rusqlite::Error> {
    let known: Option<i64> = connection
        .query_row(
            "SELECT there.id FROM program AS there JOIN program AS old USING (identity, shape)
             WHERE old.id = ?1 AND there.machine = ?2",
            params![program, machine.fingerprint],
            |row| row.get(0),
        )
        .optional()?;
    let Some(known) = known else {
        connection.execute(
            "UPDATE program SET machine = ?2 WHERE id = ?1",
            params![program, machine.fingerprint],
        )?;
        return Ok(());
    };
    connection.execute("UPDATE sample SET program = ?2 WHERE program = ?1", [program, known])?;
    if runs::is_made(connection)? {
        connection.execute("UPDATE run SET program = ?2 WHERE program = ?1", [program, known])?;
        connection.execute(
            "UPDATE OR IGNORE history SET program = ?2 WHERE program = ?1",
            [program, known],
        )?;
    }
    let placement = is_made(connection)?.then_some("placement");
    for table in ["choice"].into_iter().chain(placement) {
        connection.execute(
            &format!(
                "DELETE FROM {table} WHERE program = ?1 AND EXISTS (SELECT 1 FROM {table} AS later
                 WHERE later.program = ?2 AND later.threads = {table}.threads AND later.at >= {table}.at)"
            ),
            [program, known],
        )?;
        connection.execute(
            &format!("UPDATE OR REPLACE {table} SET program = ?2 WHERE program = ?1"),
            [program, known],
        )?;
    }
    connection.execute("DELETE FROM program WHERE id = ?1", [program])?;
    Ok(())
}
