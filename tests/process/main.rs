//! The program as a process: started, killed, stopped and started again, with what a machine can do to it.

mod crash;
mod drain;
mod harness;
mod refuse;
mod store_files;
